/* test_page.c - docs/ops.md is made from the op table and is up to date; what ops.def says of
 * operands and results holds for every sample. `test_page --write` writes the page. */
#include "sample.h"

#include "op/map.h"

#include <ctype.h>
#include <stdio.h>

#define PAGE "docs/ops.md"

typedef struct op_words {
    const char *operands, *text;
} op_words;

static const op_words words[OP_COUNT] = {
#define OP(upper, lower, operands, text) {operands, text},
#include "op/ops.def"
#undef OP
};

/* ---- operands and results as ops.def writes them: name[?][:dtype][shape][+ or *] ---- */

typedef struct term {
    char name[16], dtype[8], shape[24];
    bool optional, several, none; /* none: of several there may be none */
} term;

/* Reads one term and moves on; false at an arrow or at the end. */
static bool next_term(const char **at, term *t) {
    int n = 0;
    *t = (term){.dtype = "f32"};
    *at += strspn(*at, " ");
    if (sscanf(*at, "%15[a-z_]%n", t->name, &n) != 1) {
        return false;
    }
    *at += n;
    t->optional = **at == '?';
    *at += t->optional;
    if (sscanf(*at, ":%7[a-z0-9]%n", t->dtype, &n) == 1) {
        *at += n;
    }
    assert_int_equal(sscanf(*at, "[%23[^]]]%n", t->shape, &n), 1);
    *at += n;
    t->none = **at == '*';
    t->several = t->none || **at == '+';
    *at += t->several;
    return true;
}

typedef struct sizes {
    int64_t of[128]; /* by letter; 0: not known yet */
} sizes;

/* `4*H` of n elements: settles the one letter that is not known, or compares. */
static void match_size(sizes *s, const char *text, int64_t n) {
    int64_t known = 1;
    char open = 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (isdigit((unsigned char)*p)) {
            known *= *p - '0';
        } else if (isupper((unsigned char)*p) && s->of[(int)*p] != 0) {
            known *= s->of[(int)*p];
        } else if (isupper((unsigned char)*p)) {
            known = open == 0 ? known : 0; /* two at once: later */
            open = *p;
        }
    }
    if (known == 0) {
        return;
    }
    assert_int_equal(n % known, 0);
    if (open != 0) {
        s->of[(int)open] = n / known;
    } else {
        assert_int_equal(n, known);
    }
}

static void match_term(sizes *s, const term *t, const ir_type *type) {
    char shape[24], *end = NULL;
    const char *dtype = ebb__ir_dtype_name(type->dtype);
    assert_true(strcmp(t->dtype, "any") == 0 || strcmp(t->dtype, dtype) == 0);
    memcpy(shape, t->shape, sizeof shape);
    bool leading = strncmp(shape, "...", 3) == 0;
    int32_t n = 0, k = 0;
    for (const char *p = shape; *p != '\0'; p++) {
        n += *p == ',';
    }
    n += leading ? 0 : 1; /* sizes that are written */
    assert_true(leading ? type->rank >= n : type->rank == n);
    char *part = strtok_r(shape + (leading ? 3 : 0), ",", &end);
    for (; part != NULL; part = strtok_r(NULL, ",", &end)) {
        match_size(s, part, type->dim[type->rank - n + k++]);
    }
}

/* Every term of the op beside its operand or result in the sample. */
static void match_sample(const op_case *c, const char *at, sizes *s) {
    term t;
    int32_t i = 0;
    while (next_term(&at, &t)) {
        assert_int_equal(t.optional, (c->op->optional >> i & 1) != 0);
        assert_int_equal(t.several, (c->op->flags & OPF_VARIADIC) != 0);
        for (int32_t k = i; k < (t.several ? c->sample->n_in : i + 1); k++) {
            if (c->in[k] != IR_NONE) {
                match_term(s, &t, &c->sample->in[k]);
            }
        }
        i += !t.none;
    }
    assert_int_equal(i, c->op->n_in);
    assert_int_equal(strncmp(at, "->", 2), 0);
    at += 2;
    for (i = 0; next_term(&at, &t); i++) {
        assert_in_range(i, 0, c->op->n_out - 1);
        match_term(s, &t, &c->graph.values[c->node.out + i].type);
    }
    assert_int_equal(i, c->op->n_out);
    assert_int_equal(*at, '\0');
}

static void words_hold(void **state) {
    (void)state;
    for (int code = 0; code < OP_COUNT; code++) {
        const op_def *op = ebb__op(code);
        for (int32_t i = 0; i < op->n_samples; i++) {
            op_case c;
            sizes s = {0};
            case_open(&c, code, &op->samples[i]);
            match_sample(&c, words[code].operands, &s);
            match_sample(&c, words[code].operands, &s); /* now that all letters are known */
            case_close(&c);
        }
    }
}

/* ---- the page ---- */

static void names(FILE *out, const char *title, const char *const *name, int n) {
    for (int i = 0; i < n && name[i] != NULL; i++) {
        fprintf(out, "%s`%s`", i == 0 ? title : ", ", name[i]);
    }
}

/* The name of operand or result i. */
static term term_at(int code, bool result, int32_t i) {
    const char *at = result ? strstr(words[code].operands, "->") + 2 : words[code].operands;
    term t = {0};
    for (int32_t k = 0; k <= i && next_term(&at, &t); k++) {
    }
    return t;
}

static void in_place(FILE *out, int code) {
    const op_def *op = ebb__op(code);
    for (int32_t i = 0; i < op->n_inplace; i++) {
        fprintf(out, "%s%s in the bytes of %s", i == 0 ? "; in place: " : ", ",
                term_at(code, true, op->inplace[i].out).name,
                term_at(code, false, op->inplace[i].in).name);
    }
}

static void roles(char *text, const op_row_role *role, int32_t n) {
    static const char *const name[] = {
        [ROWS_WHOLE] = "whole", [ROWS_SPLIT] = "split",     [ROWS_CARRY] = "carried",
        [ROWS_BATCH] = "batch", [ROWS_COLUMNS] = "columns", [ROWS_ANY] = "any",
        [ROWS_MEAN] = "mean"};
    for (int32_t i = 0; i < n; i++) {
        sprintf(text + strlen(text), "%s%s", i == 0 ? "" : " ", name[role[i]]);
    }
}

/* How rows are split: all ways that samples show. */
static void by_rows(FILE *out, int code) {
    const op_def *op = ebb__op(code);
    char all[400] = "";
    for (int32_t i = 0; op->rows != NULL && i < op->n_samples; i++) {
        op_case c;
        op_row_role in[OP_MAX_SAMPLE_IN], results[IR_MAX_OUT];
        char text[100] = "";
        case_open(&c, code, &op->samples[i]);
        op->rows(&c.graph, &c.node, in, results);
        roles(text, in, c.node.n_in);
        strcat(text, " -> ");
        roles(text, results, c.node.n_out);
        if (strstr(all, text) == NULL) {
            assert_true(strlen(all) + sizeof text < sizeof all);
            sprintf(all + strlen(all), "%s%s", all[0] == '\0' ? "" : " or ", text);
        }
        case_close(&c);
    }
    fprintf(out, all[0] == '\0' ? "; not by rows" : "; by rows: %s", all);
}

static void flags(FILE *out, const op_def *op) {
    static const struct {
        uint32_t flag;
        const char *text;
    } name[] = {{OPF_ELEMENTWISE, "elementwise"},
                {OPF_RANDOM, "random"},
                {OPF_HEAVY, "heavy"},
                {OPF_ALIAS, "moves no byte"},
                {OPF_LOSS, "end of a chain that is chunked"}};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        if ((op->flags & name[i].flag) != 0) {
            fprintf(out, "; %s", name[i].text);
        }
    }
}

static void write_page(FILE *out) {
    fprintf(
        out,
        "# Ops\n\nMade from `src/op/ops.def` and the op table by `build/tests/op/test_page "
        "--write`; a test\ncompares. How an op gets here: [add an op](add-an-op.md).\n\n"
        "`name?` may be absent, `name[...]+` stands for one or more, `*` for none or more; f32 is "
        "not said. Letters "
        "are sizes; in\n`x[S*B,H]` row j*B + b belongs to block j and batch row b; "
        "`x[G,B,Y,X,I,L]` is a map "
        "of G groups of I\nimages and B blocks of L channels "
        "([0027](decisions/0027-maps-have-six-axes.md)). *By rows* "
        "says how the chunk and batch_time\npasses may cut or join nodes: an operand or result "
        "is split with the rows, read whole by every part, or\ncarried from part to part. "
        "The shard pass parts the batch by them too, and alone by these: *batch*, the same\n"
        "rows of every block; *columns*, those of batch rows; *any*, all rows at once in any "
        "order; *mean*, a statistic\nthat every part has its own of, and all together the mean. "
        "*Units* are columns, or batch rows, that can be\ncomputed apart, so that runs "
        "of nodes need no barrier.\n");
    for (int code = 0; code < OP_COUNT; code++) {
        const op_def *op = ebb__op(code);
        fprintf(out, "\n## %s\n\n`%s`\n\n%s\n\n", op->schema.name, words[code].operands,
                words[code].text);
        fprintf(out, "%s gradient", op->grad != NULL ? "Has a" : "No");
        names(out, "; attributes ", op->schema.ints, IR_MAX_INTS);
        names(out, op->schema.ints[0] == NULL ? "; attributes " : ", ", op->schema.floats,
              IR_MAX_FLOATS);
        in_place(out, code);
        by_rows(out, code);
        fprintf(out, "%s",
                op->units == NULL                  ? ""
                : op->unit_rows                    ? "; units: batch rows"
                : op_is_map(&op->samples[0].in[0]) ? "; units: rows of pixels"
                                                   : "; units: columns");
        flags(out, op);
        fprintf(out, "%s.\n", op->layout == LAYOUT_DENSE ? "; rows must lie close" : "");
    }
}

static void page_is_up_to_date(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0, got = 0;
    FILE *out = open_memstream(&text, &size), *page = fopen(PAGE, "r");
    assert_non_null(out);
    assert_non_null(page);
    write_page(out);
    fclose(out);
    char *old = calloc(1, size + 2);
    assert_non_null(old);
    got = fread(old, 1, size + 1, page);
    fclose(page);
    if (got != size || memcmp(old, text, size) != 0) {
        fail_msg("%s is not that of this op table: run build/tests/op/test_page --write", PAGE);
    }
    free(old);
    free(text);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--write") == 0) {
        FILE *page = fopen(PAGE, "w");
        if (page == NULL) {
            return 1;
        }
        write_page(page);
        return fclose(page) == 0 ? 0 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_hold),
        cmocka_unit_test(page_is_up_to_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
