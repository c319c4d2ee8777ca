/* test_bleu.c - BLEU and chrF against sacreBLEU, on 1000 random corpora in several scripts, and on
 * 200 with several references.
 *
 * The files come from tools/golden/bleu.py, which says what is in it. The texts are written to
 * files and scored as the command does it: counts must be equal, scores to 1e-9. */
#include "unit/data_help.h"

#include "score/corpus.h"

#include <jansson.h>
#include <math.h>

enum { MOST_TEXTS = 4 };

typedef struct texts {
    const char *path[MOST_TEXTS]; /* translations, then references */
    size_t n;
} texts;

static json_t *load_corpora(const char *name) {
    char path[512];
    json_error_t error;
    const char *slash = strrchr(__FILE__, '/');
    int folder = slash == NULL ? 0 : (int)(slash + 1 - __FILE__);
    (void)snprintf(path, sizeof path, "%.*s%s", folder, __FILE__, name);
    json_t *file = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (file == NULL) {
        fail_msg("%s:%d: %s", path, error.line, error.text);
    }
    return file;
}

static void write_text(const char *path, const json_t *text) {
    assert_true(json_is_string(text));
    help_write(path, json_string_value(text), json_string_length(text));
}

static void expect_real(size_t index, const char *what, double got, double want) {
    if (!(fabs(got - want) <= 1e-9)) {
        fail_msg("corpus %zu: %s is %.17g, not %.17g", index, what, got, want);
    }
}

static void expect_count(size_t index, const char *what, uint64_t got, const json_t *want) {
    if (!json_is_integer(want) || (json_int_t)got != json_integer_value(want)) {
        fail_msg("corpus %zu: %s is %llu, not %lld", index, what, (unsigned long long)got,
                 (long long)json_integer_value(want));
    }
}

static void check_bleu(help_room *room, const texts *t, size_t index, const json_t *corpus,
                       const char *name, score_tok tok) {
    const json_t *want = json_object_get(corpus, name);
    bleu_counts counts;
    uint64_t lines = 0;
    assert_int_equal(json_array_size(want), 16);
    assert_int_equal(ebb__score_bleu(room->ctx, t->path, t->n, tok, &counts, &lines), EBB_OK);
    bleu_parts parts = ebb__bleu_parts(&counts);
    expect_count(index, "lines", lines, json_object_get(corpus, "lines"));
    expect_count(index, "hypothesis length", counts.hyp_len, json_array_get(want, 2));
    expect_count(index, "reference length", counts.ref_len, json_array_get(want, 3));
    for (size_t k = 0; k < BLEU_ORDERS; k++) {
        expect_count(index, "matches", counts.match[k], json_array_get(want, 4 + k));
        expect_count(index, "n-grams", counts.total[k], json_array_get(want, 8 + k));
        expect_real(index, "precision", parts.precision[k],
                    json_number_value(json_array_get(want, 12 + k)));
    }
    expect_real(index, "brevity penalty", parts.brevity_penalty,
                json_number_value(json_array_get(want, 1)));
    expect_real(index, name, parts.bleu, json_number_value(json_array_get(want, 0)));
    assert_true(ebb__bleu_score(&counts) == parts.bleu);
}

static void check_chrf(help_room *room, const texts *t, size_t index, const json_t *corpus) {
    chrf_counts counts;
    uint64_t lines = 0;
    assert_int_equal(ebb__score_chrf(room->ctx, t->path, t->n, &counts, &lines), EBB_OK);
    expect_count(index, "lines", lines, json_object_get(corpus, "lines"));
    expect_real(index, "chrf", ebb__chrf_score(&counts),
                json_number_value(json_object_get(corpus, "chrf")));
}

/* The texts of a corpus as files. */
static texts write_texts(help_room *room, const json_t *corpus) {
    const json_t *refs = json_object_get(corpus, "refs");
    texts t = {.n = 1 + (refs != NULL ? json_array_size(refs) : 1)};
    assert_true(t.n <= MOST_TEXTS);
    for (size_t i = 0; i < t.n; i++) {
        t.path[i] = room->path[i];
        write_text(t.path[i], i == 0         ? json_object_get(corpus, "hyp")
                              : refs != NULL ? json_array_get(refs, i - 1)
                                             : json_object_get(corpus, "ref"));
    }
    return t;
}

static void check_corpora(help_room *room, const char *name, size_t least) {
    json_t *file = load_corpora(name), *corpus;
    const json_t *corpora = json_object_get(file, "corpora");
    size_t index;
    assert_true(json_array_size(corpora) >= least);
    json_array_foreach(corpora, index, corpus) {
        texts t = write_texts(room, corpus);
        check_bleu(room, &t, index, corpus, "13a", SCORE_13A);
        check_bleu(room, &t, index, corpus, "none", SCORE_NONE);
        check_chrf(room, &t, index, corpus);
    }
    json_decref(file);
}

static void equals_sacrebleu(void **state) {
    check_corpora(*state, "bleu.json", 1000);
}

static void equals_sacrebleu_with_several_references(void **state) {
    check_corpora(*state, "bleu_refs.json", 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equals_sacrebleu, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(equals_sacrebleu_with_several_references, help_setup,
                                        help_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
