/* test_codes.c - byte-pair codes: order and ties, words of any bytes, memory, files that are wrong,
 * and that every failure is reported. Equality with subword-nmt: tests/golden/test_codes.c. */
#include "data_help.h"

#include "data/codes_drop.h"
#include "data/codes_words.h"

static ebb_status learn(help_room *room, const char *text, uint64_t n, data_codes *out) {
    words_list words;
    help_write_text(room->path[0], text);
    ebb__words_list_init(room->ctx, 0, &words);
    ebb_status status = ebb__words_list_read(&words, room->path[0]);
    if (status == EBB_OK) {
        status = ebb__codes_learn(&words, n, 0, out);
    }
    ebb__words_list_free(&words);
    return status;
}

/* The word's pieces, joined by '|'. */
static void expect_cut(const data_codes *codes, codes_cutter *cutter, const char *word,
                       const char *want) {
    char joined[256];
    size_t used = 0, begin = 0;
    assert_int_equal(ebb__codes_cut(codes, cutter, word, strlen(word)), EBB_OK);
    for (size_t i = 0; i < cutter->n_ends; begin = cutter->ends[i++]) {
        used += (size_t)snprintf(joined + used, sizeof joined - used, "%s%.*s", i > 0 ? "|" : "",
                                 (int)(cutter->ends[i] - begin), word + begin);
    }
    assert_string_equal(joined, want);
}

static void earlier_pairs_first(void **state) {
    help_room *room = *state;
    data_codes codes;
    codes_cutter cutter = {.ctx = room->ctx};
    help_write_text(room->path[0], "#version: 0.2\nb c\na b\na bc\na a\nx y</w>\nb c\n");
    assert_int_equal(ebb__codes_load(room->ctx, room->path[0], EBB_DATA, &codes), EBB_OK);
    for (int known = 0; known < 2; known++) {
        for (int again = 0; again < 2; again++) {
            expect_cut(&codes, &cutter, "abc", "ab|c"); /* c</w> is not c */
            expect_cut(&codes, &cutter, "abcx", "abc|x");
            expect_cut(&codes, &cutter, "aaaz", "aa|a|z"); /* from left to right */
            expect_cut(&codes, &cutter, "aaaaz", "aa|aa|z");
            expect_cut(&codes, &cutter, "xy", "xy");
            expect_cut(&codes, &cutter, "xyx", "x|y|x");
            expect_cut(&codes, &cutter, "a", "a");
            expect_cut(&codes, &cutter, "\xff\xc3\xa9", "\xff|\xc3\xa9");
        }
        assert_int_equal(known > 0 ? EBB_OK : ebb__codes_cutter_remember(&cutter), EBB_OK);
    }
    ebb__codes_cutter_free(&cutter);
    ebb__codes_free(&codes);
}

/* One of 65535 letters is cut in no more than a moment, and to what it must be. */
static void long_words(void **state) {
    help_room *room = *state;
    data_codes codes;
    codes_cutter cutter = {.ctx = room->ctx};
    char *word = malloc(TEXT_TOKEN_LIMIT);
    assert_non_null(word);
    memset(word, 'a', TEXT_TOKEN_LIMIT);
    help_write_text(room->path[0], "#version: 0.2\na a\naa aa\naaaa aaaa\n");
    assert_int_equal(ebb__codes_load(room->ctx, room->path[0], EBB_DATA, &codes), EBB_OK);
    assert_int_equal(ebb__codes_cut(&codes, &cutter, word, TEXT_TOKEN_LIMIT), EBB_OK);
    assert_int_equal(cutter.n_ends, 8191 + 3); /* 8 each; 4, 2, and the last with its mark */
    for (size_t i = 0; i < 8191; i++) {
        assert_int_equal(cutter.ends[i], 8 * (i + 1));
    }
    free(word);
    ebb__codes_cutter_free(&cutter);
    ebb__codes_free(&codes);
}

static void any_bytes(void **state) {
    help_room *room = *state;
    data_codes codes, again;
    assert_int_equal(
        learn(room, "\xff\xfe\xff\xfe x\x01y x\x01y \xc3( \xc3( \xff\xfe\n", 9, &codes), EBB_OK);
    assert_int_equal(ebb__codes_save(&codes, room->path[1]), EBB_OK);
    assert_int_equal(ebb__codes_load(room->ctx, room->path[1], EBB_MODEL, &again), EBB_OK);
    assert_true(ebb__codes_hash(&codes) == ebb__codes_hash(&again));
    void *moved = malloc(again.bytes);
    assert_non_null(moved);
    ebb__codes_move(&again, moved);
    assert_true(ebb__codes_hash(&codes) == ebb__codes_hash(&again));
    ebb__codes_free(&again);
    free(moved);
    ebb__codes_free(&codes);
    help_expect(room->ctx, learn(room, "a b c\n", 9, &codes), EBB_DATA, "nothing to learn");
    help_expect(room->ctx, learn(room, "ab cd ef\n", 9, &codes), EBB_DATA, "nothing to learn");
}

static void bad_files(void **state) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"#version: 0.2\n", "holds no pair"},
        {"#version: 0.3\na b\n", ":1: a version"},
        {"#version: 0.2\na b\n\nb c\n", ":3: an empty line"},
        {"#version: 0.2\na\n", ":2: one piece"},
        {"#version: 0.2\na b c\n", ":2: more than two"},
        {"#version: 0.2\na  b\n", ":2: more than two"},
        {"#version: 0.2\na b\nabc d\n", ":3: its first piece"},
        {"#version: 0.2\na b\nd abc\n", ":3: its second piece"},
        {"a b</w>\n", ":1: its second piece"},
        {"{\"a\": 1}\n", "piece"},
    };
    help_room *room = *state;
    data_codes codes;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        help_write_text(room->path[0], cases[i].text);
        help_expect(room->ctx, ebb__codes_load(room->ctx, room->path[0], EBB_MODEL, &codes),
                    EBB_MODEL, cases[i].says);
    }
    help_expect(room->ctx, ebb__codes_load(room->ctx, room->path[2], EBB_DATA, &codes), EBB_DATA,
                "no such file");
    /* More pairs than any codes have. */
    FILE *file = fopen(room->path[0], "wb");
    assert_non_null(file);
    for (int i = 0; i <= CODES_MOST_PAIRS; i++) {
        assert_true(fputs("a b\n", file) >= 0);
    }
    assert_int_equal(fclose(file), 0);
    help_expect(room->ctx, ebb__codes_load(room->ctx, room->path[0], EBB_DATA, &codes), EBB_DATA,
                ":1048577: more than 1048576 pairs");
}

static void budget(void **state) {
    help_room *room = *state;
    words_list words;
    data_codes codes;
    help_write_text(room->path[0], "one two three four one two\n");
    ebb__words_list_init(room->ctx, 100, &words);
    help_expect(room->ctx, ebb__words_list_read(&words, room->path[0]), EBB_BUDGET, "give more");
    ebb__words_list_free(&words);
    ebb__words_list_init(room->ctx, 0, &words);
    assert_int_equal(ebb__words_list_read(&words, room->path[0]), EBB_OK);
    const uint64_t sizes[] = {10, 5000};
    for (int i = 0; i < 2; i++) {
        help_expect(room->ctx, ebb__codes_learn(&words, 3, sizes[i], &codes), EBB_BUDGET,
                    "give more memory");
    }
    ebb__words_list_free(&words);
    char *word = malloc(TEXT_TOKEN_LIMIT + 2);
    assert_non_null(word);
    memset(word, 'a', TEXT_TOKEN_LIMIT + 1);
    word[TEXT_TOKEN_LIMIT + 1] = '\0';
    help_expect(room->ctx, learn(room, word, 3, &codes), EBB_DATA, ":1: a word of more than");
    free(word);
}

/* ---- dropout ---- */

enum { MOST_LETTERS = 24 };

/* As subword-nmt has it, on strings: before each join a throw for every pair of neighbours; the
 * earliest pair of those left is joined wherever it was left, from left to right. Gives the pieces
 * joined by '|'. */
static void drop_plainly(const char *const *pairs, const char *word, codes_throws *throws,
                         char *joined) {
    char pieces[MOST_LETTERS][MOST_LETTERS + 5];
    int n = (int)strlen(word), best = 0;
    for (int i = 0; i < n; i++) {
        (void)snprintf(pieces[i], sizeof pieces[i], "%c%s", word[i], i + 1 == n ? "</w>" : "");
    }
    while (best >= 0) {
        int rank[MOST_LETTERS];
        best = -1;
        for (int i = 0; i + 1 < n; i++) {
            bool left = !codes_throw(throws);
            char pair[2 * MOST_LETTERS + 16] = "";
            strcat(strcat(strcat(pair, pieces[i]), " "), pieces[i + 1]);
            rank[i] = -1;
            for (int k = 0; left && rank[i] < 0 && pairs[k] != NULL; k++) {
                rank[i] = strcmp(pairs[k], pair) == 0 ? k : -1;
            }
            best = rank[i] >= 0 && (best < 0 || rank[i] < best) ? rank[i] : best;
        }
        for (int i = 0, old = 0, all = n; best >= 0 && old < all; i++, old++) {
            memmove(pieces[i], pieces[old], sizeof pieces[i]);
            if (old + 1 < all && rank[old] == best) {
                old++;
                memmove(pieces[i] + strlen(pieces[i]), pieces[old], strlen(pieces[old]) + 1);
                n--;
            }
        }
    }
    *joined = '\0';
    for (int i = 0; i < n; i++) {
        strcat(strcat(joined, i > 0 ? "|" : ""), pieces[i]);
    }
    joined[strlen(joined) - strlen("</w>")] = '\0';
}

static void pairs_passed_over(void **state) {
    static const char *const pairs[] = {"a b",   "b a",  "ab a",  "a a",     "b b</w>",
                                        "ab ab", "aa b", "ba ba", "b a</w>", NULL};
    help_room *room = *state;
    data_codes codes;
    codes_cutter cutter = {.ctx = room->ctx};
    char text[256] = "#version: 0.2\n", word[MOST_LETTERS + 1], want[128], found[128];
    uint64_t dice = 1;
    int differs = 0;
    for (int i = 0; pairs[i] != NULL; i++) {
        strcat(strcat(text, pairs[i]), "\n");
    }
    help_write_text(room->path[0], text);
    assert_int_equal(ebb__codes_load(room->ctx, room->path[0], EBB_DATA, &codes), EBB_OK);
    void *memory = malloc(ebb__codes_cutter_bytes(MOST_LETTERS));
    assert_non_null(memory);
    ebb__codes_cutter_place(&cutter, MOST_LETTERS, memory);
    for (uint32_t i = 0; i < 3000; i++) {
        static const float shares[] = {0.0F, 0.1F, 0.5F, 1.0F};
        size_t length = 1 + i % MOST_LETTERS, begin = 0;
        for (size_t k = 0; k < length; k++) {
            dice = dice * 6364136223846793005U + 1442695040888963407U;
            word[k] = dice >> 40 & 1 ? 'a' : 'b';
        }
        word[length] = '\0';
        codes_throws own = {.key = ebb__rng_key(7, "x"), .place = {i}, .share = shares[i / 24 % 4]};
        codes_throws same = own;
        assert_int_equal(ebb__codes_cut_dropping(&codes, &cutter, word, length, &own), EBB_OK);
        found[0] = '\0';
        for (size_t k = 0; k < cutter.n_ends; begin = cutter.ends[k++]) {
            strncat(strcat(found, k > 0 ? "|" : ""), word + begin, cutter.ends[k] - begin);
        }
        drop_plainly(pairs, word, &same, want);
        assert_string_equal(found, want);
        assert_int_equal(own.thrown, same.thrown);
        assert_true(own.share < 1 || cutter.n_ends == length);
        size_t pieces = cutter.n_ends;
        assert_int_equal(ebb__codes_cut(&codes, &cutter, word, length), EBB_OK);
        assert_true(own.share > 0 || cutter.n_ends == pieces);
        differs += cutter.n_ends != pieces;
    }
    assert_true(differs > 500);
    free(memory);
    ebb__codes_free(&codes);
}

/* The words stay, the pieces do not; and where there is no room, or no such piece, they do. */
static void sentences_cut_anew(void **state) {
    static const char *const text = "walked walking talked talking walks talks he he he\n"
                                    "walked talked walking talks he walks talking\n";
    help_room *room = *state;
    data_codes codes;
    data_vocab vocab, few;
    codes_drop drop;
    assert_int_equal(learn(room, text, 20, &codes), EBB_OK);
    vocab_options options = {.mode = TEXT_BPE, .codes = &codes};
    assert_int_equal(ebb__vocab_build(room->ctx, room->path[0], &options, &few), EBB_OK);
    options.drop = 0.5;
    assert_int_equal(ebb__vocab_build(room->ctx, room->path[0], &options, &vocab), EBB_OK);
    assert_true(vocab.count > few.count);
    uint32_t ids[64], n = 0, made = 0, others = 0;
    text_reader reader;
    text_token token;
    assert_int_equal(ebb__text_open(room->ctx, room->path[0], TEXT_BPE, "read", NULL, &reader),
                     EBB_OK);
    assert_int_equal(ebb__text_cut_with(&reader, &codes), EBB_OK);
    do {
        assert_int_equal(ebb__text_next(&reader, &token), EBB_OK);
        ids[n++] =
            token.kind == TEXT_EOS ? VOCAB_EOS : ebb__vocab_find(&vocab, token.bytes, token.length);
    } while (token.kind != TEXT_EOS);
    ebb__text_close(&reader);
    void *memory = malloc(ebb__codes_drop_bytes(64));
    assert_non_null(memory);
    ebb__codes_drop_make(&vocab, 0.5, 3, "side", 64, memory, &drop);
    for (uint64_t epoch = 0; epoch < 50; epoch++) {
        uint32_t before[64], again = 0;
        char line[512] = "";
        text_joint joint = {.mode = TEXT_BPE};
        assert_int_equal(ebb__codes_drop_cut(&drop, epoch, 9, ids, n, &made), EBB_OK);
        assert_true(made > 0 && drop.ids[made - 1] == VOCAB_EOS);
        others += made != n;
        for (uint32_t i = 0; i + 1 < made; i++) {
            size_t length = 0;
            bool space = false;
            const char *piece = ebb__vocab_token(&vocab, drop.ids[i], &length);
            length = ebb__text_join(&joint, piece, length, &space);
            strncat(strcat(line, space ? " " : ""), piece, length);
        }
        assert_memory_equal(line, text, strlen(line));
        assert_int_equal(text[strlen(line)], '\n');
        memcpy(before, drop.ids, made * sizeof *before);
        assert_int_equal(ebb__codes_drop_cut(&drop, epoch + 1, 9, ids, n, &again), EBB_OK);
        assert_int_equal(ebb__codes_drop_cut(&drop, epoch, 9, ids, n, &again), EBB_OK);
        assert_int_equal(again, made);
        assert_memory_equal(before, drop.ids, made * sizeof *before);
    }
    assert_true(others > 40);
    ebb__codes_drop_make(&vocab, 1.0, 3, "side", n, memory, &drop);
    assert_int_equal(ebb__codes_drop_cut(&drop, 0, 9, ids, n, &made), EBB_OK);
    assert_true(made == 0 || made == n); /* all letters do not fit: words stay, or all does */
    ebb__codes_drop_make(&few, 1.0, 3, "side", 64, memory, &drop);
    uint32_t known[] = {2, 3, VOCAB_UNK, 4, VOCAB_EOS};
    assert_int_equal(ebb__codes_drop_cut(&drop, 0, 9, known, 5, &made), EBB_OK);
    for (uint32_t i = 0, unknown = 0; i < made; i++) {
        unknown += drop.ids[i] == VOCAB_UNK;
        assert_true(i + 1 < made || unknown == 1);
    }
    free(memory);
    ebb__vocab_free(&vocab);
    ebb__vocab_free(&few);
    ebb__codes_free(&codes);
}

static ebb_status all_of_it(help_room *room) {
    data_codes codes = {.ctx = room->ctx}, again = {.ctx = room->ctx};
    codes_applied done;
    ebb_status status;
    TRY_OUT(learn(room, "the then that the there\n", 6, &codes));
    TRY_OUT(ebb__codes_save(&codes, room->path[1]));
    TRY_OUT(ebb__codes_load(room->ctx, room->path[1], EBB_MODEL, &again));
    TRY_OUT(ebb__codes_apply(&again, NULL, room->path[0], room->path[2], &done));
out:
    ebb__codes_free(&codes);
    ebb__codes_free(&again);
    return status;
}

static void failures(void **state) {
    help_fail_each(*state, all_of_it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(earlier_pairs_first, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(long_words, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(any_bytes, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(bad_files, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(budget, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(pairs_passed_over, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(sentences_cut_anew, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(failures, help_setup, help_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
