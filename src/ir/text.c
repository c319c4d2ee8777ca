/* text.c - the text form of a graph: printed for --dump-after, parsed in tests.
 *
 *   param %0 f32[10,4] "embed.weight" layer="embed" next=%9
 *   %5:f32[2,4], %6:f32[2,2] = lstm_gates %3 %4 {trans_b=1 p=0.5} @ "rnn.l0" t=3 fwd
 *   loss %8
 *   output %8 "loss"
 *
 * One line a variable (in order of ids) or node (in graph order); absent operands print as `-`.
 * Floats print in hexadecimal, so that a round trip keeps every bit. t= is the place along the axis
 * of unrolling (ir_label.at); a shard but the first stands behind it: t=3 s=1. `#` starts a
 * comment.
 */
#include "ir/graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const role_names[] = {"temp",   "param",   "slot", "state",
                                         "buffer", "scratch", "input"};
static const char *const phase_names[IR_PHASES] = {
#define IR_PHASE_BRIEF(id, name, brief) [id] = brief,
    IR_PHASE_LIST(IR_PHASE_BRIEF)
#undef IR_PHASE_BRIEF
};

/* ---- printing ---- */

typedef struct text_buffer {
    alloc_region *region;
    char *text;
    size_t used, capacity;
} text_buffer;

static ebb_status put(text_buffer *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static ebb_status put(text_buffer *b, const char *format, ...) {
    char piece[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof piece) {
        return ebb__fail(b->region->ctx, EBB_USAGE, "text: a name is longer than %zu bytes",
                         sizeof piece);
    }
    TRY(ebb__region_grow(b->region, &b->text, &b->capacity, b->used + (size_t)n + 1, 1));
    memcpy(b->text + b->used, piece, (size_t)n + 1);
    b->used += (size_t)n;
    return EBB_OK;
}

static ebb_status put_type(text_buffer *b, const ir_type *type) {
    TRY(put(b, "%s[", ebb__ir_dtype_name(type->dtype)));
    for (int32_t i = 0; i < type->rank; i++) {
        TRY(put(b, "%s%d", i ? "," : "", type->dim[i]));
    }
    return put(b, "]");
}

static ebb_status put_variable(text_buffer *b, const ir_graph *graph, ir_val v) {
    const ir_value *value = &graph->values[v];
    TRY(put(b, "%s %%%d ", role_names[value->role], v));
    TRY(put_type(b, &value->type));
    TRY(put(b, " \"%s\" layer=\"%s\"", value->name, graph->layers[value->layer]));
    if (value->next != IR_NONE) {
        TRY(put(b, " next=%%%d", value->next));
    }
    return put(b, "\n");
}

static ebb_status put_attrs(text_buffer *b, const ir_schema *schema, const ir_attr *attr) {
    bool any = false;
    for (int i = 0; i < IR_MAX_INTS; i++) {
        if (schema->ints[i] != NULL && attr->i[i] != 0) {
            TRY(put(b, "%s%s=%d", any ? " " : " {", schema->ints[i], attr->i[i]));
            any = true;
        }
    }
    for (int i = 0; i < IR_MAX_FLOATS; i++) {
        if (schema->floats[i] != NULL && (attr->f[i] != 0 || signbit(attr->f[i]))) {
            TRY(put(b, "%s%s=%a", any ? " " : " {", schema->floats[i], (double)attr->f[i]));
            any = true;
        }
    }
    return any ? put(b, "}") : EBB_OK;
}

static ebb_status put_node(text_buffer *b, const ir_graph *graph, const ir_node_rec *node) {
    const ir_schema *schema = graph->schemas[node->op];
    for (int32_t i = 0; i < node->n_out; i++) {
        TRY(put(b, "%s%%%d:", i ? ", " : "", node->out + i));
        TRY(put_type(b, &graph->values[node->out + i].type));
    }
    TRY(put(b, " = %s", schema->name));
    for (int32_t i = 0; i < node->n_in; i++) {
        ir_val v = ir_in(graph, node, i);
        TRY(v == IR_NONE ? put(b, " -") : put(b, " %%%d", v));
    }
    TRY(put_attrs(b, schema, &node->attr));
    TRY(put(b, " @ \"%s\" t=%d", graph->layers[node->label.layer], node->label.at));
    if (node->label.shard != 0) {
        TRY(put(b, " s=%d", node->label.shard));
    }
    return put(b, " %s\n", phase_names[node->label.phase]);
}

ebb_status ebb__ir_print(ir_graph *graph, const char **out) {
    text_buffer b = {.region = &graph->region};
    TRY(put(&b, "# %d variables and values, %d nodes\n", graph->n_values, graph->n_order));
    for (ir_val v = 0; v < graph->n_values; v++) {
        if (graph->values[v].role != IR_TEMP) {
            TRY(put_variable(&b, graph, v));
        }
    }
    for (int32_t i = 0; i < graph->n_order; i++) {
        TRY(put_node(&b, graph, &graph->nodes[graph->order[i]]));
    }
    if (graph->loss != IR_NONE) {
        TRY(put(&b, "loss %%%d\n", graph->loss));
    }
    for (ir_val v = 0; v < graph->n_values; v++) {
        const ir_value *value = &graph->values[v];
        if (value->role == IR_TEMP && value->output) {
            TRY(put(&b, "output %%%d \"%s\"\n", v, value->name ? value->name : ""));
        }
    }
    *out = b.text;
    return EBB_OK;
}

/* ---- parsing ---- */

typedef struct text_parser {
    ir_graph *graph;
    const char *at;
    int line;
    /* Text ids may have gaps and stand in any order: map[text id] = value. */
    ir_val *map;
    size_t cap_map;
} text_parser;

/* What stands at the error, at most to the end of its line. */
static int shown(const text_parser *p) {
    size_t rest = strcspn(p->at, "\n");
    return rest < 20 ? (int)rest : 20;
}

static ebb_status bad(const text_parser *p, const char *why) {
    return ebb__fail(p->graph->ctx, EBB_DATA, "graph text:%d: %s near \"%.*s\"", p->line, why,
                     shown(p), p->at);
}

static void skip_blanks(text_parser *p) {
    while (*p->at == ' ' || *p->at == '\t') {
        p->at++;
    }
}

static bool eat(text_parser *p, const char *token) {
    skip_blanks(p);
    size_t n = strlen(token);
    if (strncmp(p->at, token, n) != 0) {
        return false;
    }
    p->at += n;
    return true;
}

static ebb_status parse_int(text_parser *p, int32_t *out) {
    skip_blanks(p);
    char *end = NULL;
    long v = strtol(p->at, &end, 10); /* would skip line ends */
    if (end == p->at || *p->at == '\n' || v < INT32_MIN || v > INT32_MAX) {
        return bad(p, "expected a number");
    }
    p->at = end;
    *out = (int32_t)v;
    return EBB_OK;
}

/* An identifier or a quoted string, copied into `out`. */
static ebb_status parse_word(text_parser *p, char *out, size_t capacity) {
    skip_blanks(p);
    bool quoted = *p->at == '"';
    const char *start = p->at + quoted;
    size_t n = quoted ? strcspn(start, "\"\n") : strcspn(start, " \t\n{}=%[]:,@\"");
    if ((n == 0 && !quoted) || n >= capacity || (quoted && start[n] != '"')) {
        return bad(p, quoted ? "unfinished string" : "expected a word");
    }
    memcpy(out, start, n);
    out[n] = '\0';
    p->at = start + n + quoted;
    return EBB_OK;
}

static ebb_status map_slot(text_parser *p, int32_t id, ir_val **slot) {
    if (id < 0 || id > (1 << 26)) {
        return bad(p, "value id out of range");
    }
    size_t old = p->cap_map;
    TRY(ebb__region_grow(&p->graph->region, &p->map, &p->cap_map, (size_t)id + 1, sizeof *p->map));
    for (size_t i = old; i < p->cap_map; i++) {
        p->map[i] = IR_NONE;
    }
    *slot = &p->map[id];
    return EBB_OK;
}

static ebb_status parse_id(text_parser *p, int32_t *id) {
    if (!eat(p, "%")) {
        return bad(p, "expected %id");
    }
    TRY(parse_int(p, id));
    return *id >= 0 ? EBB_OK : bad(p, "value id out of range before this");
}

static ebb_status parse_value(text_parser *p, ir_val *out) {
    int32_t id = 0;
    ir_val *slot = NULL;
    TRY(parse_id(p, &id));
    TRY(map_slot(p, id, &slot));
    if (*slot == IR_NONE) {
        return bad(p, "value is used before it is defined");
    }
    *out = *slot;
    return EBB_OK;
}

static ebb_status parse_type(text_parser *p, ir_type *type) {
    *type = (ir_type){0};
    while (type->dtype < IR_DTYPES && !eat(p, ebb__ir_dtype_name(type->dtype))) {
        type->dtype++;
    }
    if (type->dtype == IR_DTYPES || !eat(p, "[")) {
        return bad(p, "expected a type such as f32[2,3]");
    }
    do {
        if (type->rank == IR_MAX_RANK) {
            return bad(p, "too many dimensions");
        }
        TRY(parse_int(p, &type->dim[type->rank++]));
    } while (eat(p, ","));
    return eat(p, "]") ? ebb__ir_type_check(p->graph->ctx, type, "graph text")
                       : bad(p, "expected ]");
}

/* Variables may name a `next` that is defined later: remembered as the text id, resolved at the
 * end. */
static ebb_status parse_variable(text_parser *p, ir_role role) {
    int32_t id = 0;
    ir_type type;
    char name[256], layer[256] = "";
    ir_val v = IR_NONE, *slot = NULL;
    TRY(parse_id(p, &id));
    TRY(parse_type(p, &type));
    TRY(parse_word(p, name, sizeof name));
    if (eat(p, "layer=")) {
        TRY(parse_word(p, layer, sizeof layer));
    }
    TRY(ebb__ir_layer(p->graph, layer, &p->graph->label.layer));
    TRY(ebb__ir_add_variable(p->graph, role, name, &type, &v));
    if (eat(p, "next=")) {
        TRY(parse_id(p, &p->graph->values[v].next));
    }
    TRY(map_slot(p, id, &slot));
    if (*slot != IR_NONE) {
        return bad(p, "value is defined twice");
    }
    *slot = v;
    return EBB_OK;
}

static ebb_status parse_attrs(text_parser *p, const ir_schema *schema, ir_attr *attr) {
    while (!eat(p, "}")) {
        char key[64];
        TRY(parse_word(p, key, sizeof key));
        if (!eat(p, "=")) {
            return bad(p, "expected =");
        }
        bool known = false;
        for (int i = 0; i < IR_MAX_INTS && !known; i++) {
            if (schema->ints[i] != NULL && strcmp(schema->ints[i], key) == 0) {
                TRY(parse_int(p, &attr->i[i]));
                known = true;
            }
        }
        for (int i = 0; i < IR_MAX_FLOATS && !known; i++) {
            if (schema->floats[i] != NULL && strcmp(schema->floats[i], key) == 0) {
                char *end = NULL;
                attr->f[i] = strtof(p->at, &end);
                if (end == p->at || *p->at == '\n') {
                    return bad(p, "expected a number");
                }
                p->at = end;
                known = true;
            }
        }
        if (!known) {
            return bad(p, "the op has no such attribute");
        }
    }
    return EBB_OK;
}

static ebb_status parse_label(text_parser *p, ir_label *label) {
    char layer[256];
    TRY(parse_word(p, layer, sizeof layer));
    TRY(ebb__ir_layer(p->graph, layer, &label->layer));
    if (eat(p, "t=")) {
        TRY(parse_int(p, &label->at));
    }
    if (eat(p, "s=")) {
        TRY(parse_int(p, &label->shard));
        if (label->shard < -1 || label->shard >= IR_MAX_SHARDS) {
            return bad(p, "shard out of range before this");
        }
    }
    for (int i = 0; i < IR_PHASES; i++) {
        if (eat(p, phase_names[i])) {
            label->phase = (ir_phase)i;
            return EBB_OK;
        }
    }
    return bad(p, "expected fwd, bwd, upd or rec");
}

static ebb_status parse_operands(text_parser *p, ir_val **in, int32_t *n_in) {
    size_t capacity = 0;
    *in = NULL;
    *n_in = 0;
    for (skip_blanks(p); *p->at == '%' || *p->at == '-'; skip_blanks(p)) {
        TRY(ebb__region_grow(&p->graph->region, in, &capacity, (size_t)*n_in + 1, sizeof **in));
        ir_val v = IR_NONE;
        if (!eat(p, "-")) {
            TRY(parse_value(p, &v));
        }
        (*in)[(*n_in)++] = v;
    }
    return EBB_OK;
}

static ebb_status parse_node(text_parser *p) {
    int32_t ids[IR_MAX_OUT], n_out = 0, n_in = 0, op = 0;
    ir_type types[IR_MAX_OUT];
    char name[64];
    ir_attr attr = {0};
    ir_val *in = NULL, out[IR_MAX_OUT];
    do {
        if (n_out == IR_MAX_OUT) {
            return bad(p, "too many results");
        }
        TRY(parse_id(p, &ids[n_out]));
        if (!eat(p, ":")) {
            return bad(p, "expected :type");
        }
        TRY(parse_type(p, &types[n_out++]));
    } while (eat(p, ","));
    if (!eat(p, "=")) {
        return bad(p, "expected =");
    }
    TRY(parse_word(p, name, sizeof name));
    while (op < p->graph->n_schemas && strcmp(p->graph->schemas[op]->name, name) != 0) {
        op++;
    }
    if (op == p->graph->n_schemas) {
        return bad(p, "unknown op before this");
    }
    TRY(parse_operands(p, &in, &n_in));
    if (eat(p, "{")) {
        TRY(parse_attrs(p, p->graph->schemas[op], &attr));
    }
    p->graph->label = (ir_label){.layer = 0, .at = -1, .phase = IR_FORWARD};
    if (eat(p, "@")) {
        TRY(parse_label(p, &p->graph->label));
    }
    TRY(ebb__ir_add_node(p->graph, (uint16_t)op, in, n_in, &attr, types, n_out, out));
    for (int32_t i = 0; i < n_out; i++) {
        ir_val *slot = NULL;
        TRY(map_slot(p, ids[i], &slot));
        if (*slot != IR_NONE) {
            return bad(p, "value is defined twice");
        }
        *slot = out[i];
    }
    return EBB_OK;
}

static ebb_status parse_output(text_parser *p) {
    ir_val v = IR_NONE;
    char name[256];
    TRY(parse_value(p, &v));
    TRY(parse_word(p, name, sizeof name));
    p->graph->values[v].output = true;
    return name[0] ? ebb__ir_name(p->graph, v, name) : EBB_OK;
}

static ebb_status parse_line(text_parser *p) {
    skip_blanks(p);
    if (*p->at == '%') {
        return parse_node(p);
    }
    if (eat(p, "loss")) {
        return parse_value(p, &p->graph->loss);
    }
    if (eat(p, "output")) {
        return parse_output(p);
    }
    for (int role = IR_PARAM; role < IR_ROLES; role++) {
        if (eat(p, role_names[role])) {
            return parse_variable(p, (ir_role)role);
        }
    }
    return bad(p, "expected a variable, a node, loss or output");
}

static ebb_status resolve_next(text_parser *p) {
    for (ir_val v = 0; v < p->graph->n_values; v++) {
        ir_value *value = &p->graph->values[v];
        if (value->role == IR_TEMP || value->next == IR_NONE) {
            continue;
        }
        ir_val *slot = NULL;
        TRY(map_slot(p, value->next, &slot));
        if (*slot == IR_NONE) {
            return bad(p, "a variable's next value is not defined");
        }
        value->next = *slot;
    }
    return EBB_OK;
}

ebb_status ebb__ir_parse(ir_graph *graph, const char *text) {
    text_parser p = {.graph = graph, .at = text, .line = 1};
    while (*p.at != '\0') {
        skip_blanks(&p);
        if (*p.at != '\n' && *p.at != '#' && *p.at != '\0') {
            TRY(parse_line(&p));
            skip_blanks(&p);
        }
        if (*p.at == '#') {
            p.at += strcspn(p.at, "\n");
        }
        if (*p.at == '\n') {
            p.at++;
            p.line++;
        } else if (*p.at != '\0') {
            return bad(&p, "unexpected text");
        }
    }
    TRY(resolve_next(&p));
    return ebb__ir_verify(graph);
}
