/* net_text.c - reads a net from text. Statements end at a line's end or `;`, words at blanks and
 * `=`, which counts as one; `#` starts a comment. A repeat is read again for each of its turns, so
 * that no more memory is taken than the layers need, and it must hold a layer, so that it ends. */
#include "model/net_text.h"

#include "base/file.h"
#include "base/nearest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 4 << 20, MOST_DEPTH = 8, MOST_GUESSES = 4096 };

/* The file, or a repeat in it. */
typedef struct text_scope {
    const char *body; /* behind its `{` */
    int32_t line;     /* there */
    int32_t turn, turns;
    int32_t in;      /* the layer that came into this turn */
    size_t label;    /* how much of text_parser.prefix stands before the number of the turn */
    size_t prefix;   /* how much stands before names of this turn */
    int32_t repeats; /* without a name, so far */
    int32_t counts[NET_OPS];
} text_scope;

typedef struct text_parser {
    net_model *net;
    const char *at;
    char word[NET_MOST_NAME + 1];
    char prefix[NET_MOST_NAME + 1];
    text_scope scopes[MOST_DEPTH + 1];
    int32_t depth;
} text_parser;

static text_scope *scope_of(text_parser *p) {
    return &p->scopes[p->depth];
}

/* ---- words ---- */

static void skip_blanks(text_parser *p) {
    p->at += strspn(p->at, " \t\r=");
}

/* The next word of the statement, if there is one. */
static ebb_status next_word(text_parser *p, bool *any) {
    skip_blanks(p);
    *any = *p->at != '\0' && strchr("\n;{}#", *p->at) == NULL;
    if (!*any) {
        return EBB_OK;
    }
    size_t n = strcspn(p->at, " \t\r=\n;{}#:");
    if (n == 0) {
        return ebb__net_wrong(p->net, "a `:` stands only behind the name of a layer");
    }
    if (n >= sizeof p->word) {
        return ebb__net_wrong(p->net, "'%.40s...' is longer than any word here", p->at);
    }
    memcpy(p->word, p->at, n);
    p->word[n] = '\0';
    p->at += n;
    return EBB_OK;
}

static ebb_status need_word(text_parser *p, const char *after) {
    bool any = false;
    TRY(next_word(p, &any));
    return any ? EBB_OK : ebb__net_wrong(p->net, "nothing stands behind '%s'", after);
}

/* A number from 0 on; more digits than any bound has are refused here. */
static ebb_status read_whole(const text_parser *p, const char *digits, size_t n, const char *what,
                             int32_t *out) {
    if (n == 0 || n > 9 || strspn(digits, "0123456789") < n) {
        return ebb__net_wrong(p->net, "%s: '%.60s' is no number from 0 to 999999999", what,
                              p->word);
    }
    *out = (int32_t)strtol(digits, NULL, 10);
    return EBB_OK;
}

static ebb_status read_count(text_parser *p, const char *what, int32_t *out) {
    TRY(need_word(p, what));
    return read_whole(p, p->word, strlen(p->word), what, out);
}

/* ---- names ---- */

static ebb_status put_prefixed(const text_parser *p, size_t prefix, const char *name,
                               char out[NET_MOST_NAME + 1]) {
    int n = snprintf(out, NET_MOST_NAME + 1, "%.*s%s", (int)prefix, p->prefix, name);
    return n <= NET_MOST_NAME
               ? EBB_OK
               : ebb__net_wrong(p->net, "the name '%.40s...' has more than %d letters", out,
                                NET_MOST_NAME);
}

static const char *name_from_end(const void *user, size_t index) {
    const net_model *net = user;
    return net->layers[net->n_layers - 1 - (int32_t)index].name;
}

/* The layer that a word means here: of this turn, else of the repeat around it, and so on. */
static ebb_status find_layer(text_parser *p, int32_t *out) {
    const net_model *net = p->net;
    *out = strcmp(p->word, "in") == 0 ? scope_of(p)->in : -1;
    for (int32_t d = p->depth; d >= 0 && *out < 0; d--) {
        char whole[2 * sizeof p->word];
        (void)snprintf(whole, sizeof whole, "%.*s%s", (int)p->scopes[d].prefix, p->prefix, p->word);
        *out = ebb__net_find(net, whole);
    }
    if (*out >= 0) {
        return EBB_OK;
    }
    size_t n = net->n_layers < MOST_GUESSES ? (size_t)net->n_layers : MOST_GUESSES;
    return ebb__net_wrong(net, "no layer '%.60s' before this one; did you mean '%.60s'?", p->word,
                          ebb__nearest(p->word, name_from_end, net, n));
}

/* Its own name, or the op's with a number, behind those of the repeats around it. */
static ebb_status name_layer(text_parser *p, const char *label, net_op op,
                             char out[NET_MOST_NAME + 1]) {
    text_scope *scope = scope_of(p);
    if (label[0] != '\0') {
        return put_prefixed(p, scope->prefix, label, out);
    }
    do {
        char name[32];
        (void)snprintf(name, sizeof name, "%s%" PRId32, ebb__net_op_name(op), ++scope->counts[op]);
        TRY(put_prefixed(p, scope->prefix, name, out));
    } while (ebb__net_find(p->net, out) >= 0);
    return EBB_OK;
}

/* ---- layers ---- */

typedef struct text_layer {
    net_op op;
    net_numbers n;
    uint32_t given; /* which fields */
    int32_t plain;  /* how many stood without names */
    int32_t n_from;
    int32_t from[NET_MOST_INPUTS + 1]; /* [0] is for the layer before */
    bool and_before;                   /* that is read too */
} text_layer;

static ebb_status set_pair(const text_parser *p, const net_field *field, int32_t *to) {
    size_t n = strcspn(p->word, "x");
    TRY(read_whole(p, p->word, n, field->name, &to[0]));
    to[1] = to[0];
    return p->word[n] == '\0'
               ? EBB_OK
               : read_whole(p, p->word + n + 1, strlen(p->word + n + 1), field->name, &to[1]);
}

static ebb_status set_real(const text_parser *p, const net_field *field, double *to) {
    char *end = NULL;
    *to = strtod(p->word, &end);
    return end != p->word && *end == '\0'
               ? EBB_OK
               : ebb__net_wrong(p->net, "%s: '%.60s' is no number", field->name, p->word);
}

/* Field i of the op becomes what the word says; of a flag it is the flag itself. */
static ebb_status set_field(const text_parser *p, text_layer *layer, int32_t i) {
    const net_field *field = ebb__net_field(layer->op, i);
    char *at = (char *)&layer->n + field->offset;
    if ((layer->given & (1U << i)) != 0) {
        return ebb__net_wrong(p->net, "%s is given twice", field->name);
    }
    layer->given |= 1U << i;
    switch (field->kind) {
    case NET_INT:
        return read_whole(p, p->word, strlen(p->word), field->name, (int32_t *)(void *)at);
    case NET_PAIR:
        return set_pair(p, field, (int32_t *)(void *)at);
    case NET_REAL:
        return set_real(p, field, (double *)(void *)at);
    case NET_FLAG:
        break;
    }
    *(bool *)at = true;
    return EBB_OK;
}

static ebb_status add_input(text_parser *p, text_layer *layer) {
    if (layer->n_from == NET_MOST_INPUTS) {
        return ebb__net_wrong(p->net, "more than %d inputs", NET_MOST_INPUTS);
    }
    return find_layer(p, &layer->from[1 + layer->n_from++]);
}

static const char *word_at(const void *user, size_t index) {
    const net_field *field = ebb__net_field(*(const net_op *)user, (int32_t)index);
    return field != NULL ? field->name : "from";
}

static int32_t field_named(net_op op, const char *name, int32_t *count) {
    int32_t found = -1;
    const net_field *field;
    for (*count = 0; (field = ebb__net_field(op, *count)) != NULL; (*count)++) {
        found = strcmp(field->name, name) == 0 ? *count : found;
    }
    return found;
}

/* One word behind the op, with what belongs to it. */
static ebb_status read_word(text_parser *p, text_layer *layer) {
    bool several = layer->op == NET_ADD || layer->op == NET_CONCAT;
    if (strcmp(p->word, "from") == 0) {
        layer->and_before = several;
        TRY(need_word(p, "from"));
        return add_input(p, layer);
    }
    if (several) {
        return add_input(p, layer);
    }
    if (strchr("0123456789.-", p->word[0]) != NULL &&
        layer->plain < ebb__net_fields(layer->op).plain) {
        return set_field(p, layer, layer->plain++);
    }
    int32_t n = 0, i = field_named(layer->op, p->word, &n);
    if (i < 0) {
        return ebb__net_wrong(p->net, "%s cannot be told '%.60s'; did you mean '%s'?",
                              ebb__net_op_name(layer->op), p->word,
                              ebb__nearest(p->word, word_at, &layer->op, (size_t)n + 1));
    }
    if (ebb__net_field(layer->op, i)->kind != NET_FLAG) {
        TRY(need_word(p, ebb__net_field(layer->op, i)->name));
    }
    return set_field(p, layer, i);
}

static ebb_status check_given(const text_parser *p, const text_layer *layer) {
    for (int32_t i = 0; i < ebb__net_fields(layer->op).needed; i++) {
        if ((layer->given & (1U << i)) == 0) {
            return ebb__net_wrong(p->net, "%s needs its %s", ebb__net_op_name(layer->op),
                                  ebb__net_field(layer->op, i)->name);
        }
    }
    return EBB_OK;
}

static ebb_status parse_layer(text_parser *p, const char *label, net_op op) {
    text_layer layer = {.op = op, .n = ebb__net_usual(op)};
    char name[NET_MOST_NAME + 1];
    bool any = false;
    if (p->net->n_layers == 0) {
        return ebb__net_wrong(p->net, "the image comes first: `input CHANNELS ROWS COLUMNS`");
    }
    TRY(next_word(p, &any));
    while (any) {
        TRY(read_word(p, &layer));
        TRY(next_word(p, &any));
    }
    TRY(check_given(p, &layer));
    TRY(name_layer(p, label, op, name));
    layer.from[0] = p->net->n_layers - 1;
    bool before = layer.and_before || layer.n_from == 0;
    return ebb__net_add(p->net, name, op, &layer.n, layer.from + !before, layer.n_from + before);
}

static ebb_status parse_input(text_parser *p, const char *label) {
    int32_t size[3] = {0};
    bool more = false;
    if (p->net->n_layers > 0 || label[0] != '\0') {
        return ebb__net_wrong(p->net, "the image is described once, on the first line, unnamed");
    }
    for (int i = 0; i < 3; i++) {
        TRY(read_count(p, "input", &size[i]));
    }
    TRY(next_word(p, &more));
    return more ? ebb__net_wrong(p->net, "'%.60s': an image is `input CHANNELS ROWS COLUMNS`",
                                 p->word)
                : ebb__net_input(p->net, size[0], size[1], size[2]);
}

/* ---- repeats ---- */

static ebb_status begin_turn(text_parser *p) {
    text_scope *scope = scope_of(p);
    size_t room = sizeof p->prefix - scope->label;
    int n = snprintf(p->prefix + scope->label, room, "%" PRId32 ".", scope->turn);
    if (n < 0 || (size_t)n >= room) {
        return ebb__net_wrong(p->net, "names of repeats are longer than %d letters", NET_MOST_NAME);
    }
    scope->prefix = scope->label + (size_t)n;
    scope->in = p->net->n_layers - 1;
    scope->repeats = 0;
    memset(scope->counts, 0, sizeof scope->counts);
    p->at = scope->body;
    p->net->place.line = scope->line;
    return EBB_OK;
}

static ebb_status open_repeat(text_parser *p, const char *label) {
    text_scope *outer = scope_of(p), *scope = outer + 1;
    char name[NET_MOST_NAME + 2];
    int32_t turns = 0;
    TRY(read_count(p, "repeat", &turns));
    skip_blanks(p);
    if (*p->at != '{' || turns < 1 || p->net->n_layers == 0 || p->depth == MOST_DEPTH) {
        return p->depth == MOST_DEPTH
                   ? ebb__net_wrong(p->net, "more than %d repeats inside each other", MOST_DEPTH)
                   : ebb__net_wrong(p->net, "a repeat is `repeat N { ... }`, N at least 1, behind "
                                            "the input");
    }
    if (label[0] == '\0') {
        (void)snprintf(name, sizeof name, "repeat%" PRId32 ".", ++outer->repeats);
    } else {
        (void)snprintf(name, sizeof name, "%s.", label);
    }
    size_t n = strlen(name);
    if (outer->prefix + n >= sizeof p->prefix) {
        return ebb__net_wrong(p->net, "names of repeats are longer than %d letters", NET_MOST_NAME);
    }
    memcpy(p->prefix + outer->prefix, name, n + 1);
    *scope = (text_scope){
        .body = p->at + 1, .line = p->net->place.line, .turns = turns, .label = outer->prefix + n};
    p->depth++;
    return begin_turn(p);
}

static ebb_status close_repeat(text_parser *p) {
    text_scope *scope = scope_of(p);
    if (p->depth == 0) {
        return ebb__net_wrong(p->net, "a `}` without a repeat");
    }
    if (scope->in == p->net->n_layers - 1) {
        return ebb__net_wrong(p->net, "the repeat of line %" PRId32 " holds no layer", scope->line);
    }
    if (++scope->turn < scope->turns) {
        return begin_turn(p);
    }
    p->depth--;
    p->at++;
    return EBB_OK;
}

/* ---- the text ---- */

static const char *op_at(const void *user, size_t index) {
    (void)user;
    return index < NET_OPS ? ebb__net_op_name((net_op)index) : "repeat";
}

static ebb_status parse_op(text_parser *p, const char *label) {
    if (strcmp(p->word, "repeat") == 0) {
        return open_repeat(p, label);
    }
    for (int op = 0; op < NET_OPS; op++) {
        if (strcmp(p->word, ebb__net_op_name((net_op)op)) == 0) {
            return op == NET_INPUT ? parse_input(p, label) : parse_layer(p, label, (net_op)op);
        }
    }
    return ebb__net_wrong(p->net, "no layer is called '%.60s'; did you mean '%s'?", p->word,
                          ebb__nearest(p->word, op_at, NULL, NET_OPS + 1));
}

static ebb_status parse_statement(text_parser *p) {
    char label[sizeof p->word] = "";
    bool any = false;
    TRY(next_word(p, &any));
    if (!any) {
        return EBB_OK;
    }
    skip_blanks(p);
    if (*p->at == ':') {
        memcpy(label, p->word, sizeof label);
        p->at++;
        if (!ebb__net_name_fits(label)) {
            return ebb__net_wrong(p->net, "'%.60s' is no name: letters, digits and _.- are", label);
        }
        TRY(need_word(p, label));
    }
    return parse_op(p, label);
}

/* What stands behind a statement. A repeat leaves us at any place: there is nothing to take then.
 */
static ebb_status parse_end(text_parser *p) {
    switch (*p->at) {
    case '#':
        p->at += strcspn(p->at, "\n");
        return EBB_OK;
    case '\n':
        p->net->place.line++;
        p->at++;
        return EBB_OK;
    case ';':
        p->at++;
        return EBB_OK;
    case '{':
        return ebb__net_wrong(p->net, "a `{` without a repeat");
    case '}':
        return close_repeat(p);
    default:
        return EBB_OK;
    }
}

ebb_status ebb__net_parse(net_model *net, const char *path, const char *text) {
    text_parser p = {.net = net, .at = text};
    char *name = NULL;
    TRY(ebb__region_strdup(&net->region, path, &name));
    net->place = (net_place){name, 1, EBB_DATA};
    p.at += strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (*p.at != '\0') {
        TRY(parse_statement(&p));
        TRY(parse_end(&p));
    }
    if (p.depth > 0) {
        return ebb__net_wrong(net, "the repeat of line %" PRId32 " is not closed by `}`",
                              scope_of(&p)->line);
    }
    return ebb__net_finish(net);
}

/* What the first line begins with that is no comment. */
static char first_letter(const char *text) {
    text += strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (text += strspn(text, " \t\r\n"); *text == '#'; text += strspn(text, " \t\r\n")) {
        text += strcspn(text, "\n");
    }
    return *text;
}

ebb_status ebb__net_load(net_model *net, const char *path) {
    char *text = NULL;
    size_t bytes = 0;
    TRY(ebb__file_read_all(net->ctx, path, MOST_BYTES, &text, &bytes));
    ebb_status status = EBB_OK;
    if (strlen(text) != bytes) {
        status =
            ebb__fail(net->ctx, EBB_DATA, "%s: is not a text file: it holds a zero byte", path);
    } else {
        bool sections = first_letter(text) == '[';
        status =
            sections ? ebb__net_parse_darknet(net, path, text) : ebb__net_parse(net, path, text);
    }
    ebb__free(net->ctx, text);
    return status;
}
