/* text_corpus.c - see text_corpus.h. */
#include "kind/text/text_corpus.h"

#include "base/file.h"
#include "data/codes_gpt2.h"
#include "data/codes_words.h"
#include "kind/text/use.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The files to train on or to validate with, by side; NULL: there is none. */
typedef struct side_texts {
    const char *at[KIND_SIDES];
} side_texts;
static side_texts texts_of(const train_settings *s, bool valid) {
    const char *first = valid ? s->valid_path : s->train_path;
    const char *second = valid ? s->valid_target : s->train_target;
    return kind_has_pairs(s) ? (side_texts){{first, second}} : (side_texts){{NULL, first}};
}

/* ---- before planning ---- */

static ebb_status scan(text_corpus *t) {
    const corpus *c = &t->base;
    const data_codes *codes[KIND_SIDES] = {ebb__vocabs_codes(&t->vocabs, KIND_SOURCE),
                                           ebb__vocabs_codes(&t->vocabs, KIND_TARGET)};
    if (c->s->codes_dropout > 0 && codes_of_bytes(codes[KIND_TARGET])) {
        return ebb__fail(c->ctx, EBB_USAGE,
                         "--codes-dropout passes over pairs of words' codes; these are codes of "
                         "bytes (merges.txt and vocab.json): leave it out");
    }
    TRY(ebb__sentence_set_scan(c->ctx, c->s, texts_of(c->s, false).at, codes, c->silent,
                               c->s->codes_dropout, &t->train));
    t->train.options.shuffle = true;
    t->train.options.blank = c->s->token_dropout;
    return c->s->valid_path == NULL ? EBB_OK
                                    : ebb__sentence_set_scan(c->ctx, c->s, texts_of(c->s, true).at,
                                                             codes, c->silent, 0, &t->valid);
}

/* ---- codes ---- */

/* Adds the words of a text: those that its tokens are pieces of. */
static ebb_status add_words(ebb_ctx *ctx, const char *path, words_list *list) {
    text_reader reader;
    text_token token = {.kind = TEXT_EOS};
    ebb_status status = EBB_OK;
    TRY(ebb__text_open(ctx, path, TEXT_WORD, "count words", NULL, &reader));
    while (status == EBB_OK && token.kind != TEXT_END) {
        status = ebb__text_next(&reader, &token);
        if (status == EBB_OK && token.kind == TEXT_TOKEN) {
            status = ebb__words_list_add(list, token.bytes, token.length);
        }
    }
    ebb__text_close(&reader);
    return status;
}

/* Codes of a side are learnt from its text; those of both, from both. */
static ebb_status learn_codes(ebb_ctx *ctx, uint64_t most, const train_settings *s, kind_side side,
                              data_codes *out) {
    side_texts texts = texts_of(s, false);
    words_list words;
    ebb_status status = EBB_OK;
    ebb__words_list_init(ctx, most, &words);
    for (int i = 0; i < KIND_SIDES; i++) {
        if (texts.at[i] != NULL && (!s->codes_apart || i == (int)side)) {
            TRY_OUT(add_words(ctx, texts.at[i], &words));
        }
    }
    TRY_OUT(ebb__codes_learn(&words, (uint64_t)s->codes, most, out));
    ebb__log(ctx, EBB_LOG_DEBUG, "codes: %u pairs learnt from %zu different words", out->n_pairs,
             words.n);
out:
    ebb__words_list_free(&words);
    return status;
}

static bool is_folder(const char *path) {
    struct stat info;
    return path != NULL && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Codes that were given: a file, or those of a run. */
static ebb_status load_codes(ebb_ctx *ctx, const train_settings *s, const char *from,
                             kind_side side, data_codes *out) {
    char path[JOB_PATH_BYTES];
    TRY(ebb__vocabs_codes_path(ctx, s, side, from, false, path));
    if (is_folder(from) && !ebb__file_exists(path)) {
        if (ebb__gpt2_is_folder(from)) {
            return ebb__codes_load(ctx, from, EBB_MODEL, out);
        }
        return ebb__fail(ctx, EBB_MODEL,
                         "%s: the folder has no %s: is it of a run with --tokens bpe%s? (GPT-2's "
                         "codes are merges.txt and vocab.json)",
                         from, strrchr(path, '/') + 1, s->codes_apart ? " and --codes-apart" : "");
    }
    return ebb__codes_load(ctx, is_folder(from) ? path : from, EBB_MODEL, out);
}

/* Where the vocabulary is to be taken from: where the settings say so, or the run whose weights are
 * taken. NULL: it is counted. */
static ebb_status whose_words(ebb_ctx *ctx, const train_settings *s, const char **out) {
    bool known = false;
    if (s->vocab_from == NULL && is_folder(s->init_path)) {
        TRY(ebb__use_find_vocabs(ctx, s, s->init_path, &known));
    }
    *out = known ? s->init_path : s->vocab_from;
    return EBB_OK;
}

ebb_status ebb__texts_take_codes(ebb_ctx *ctx, uint64_t most, text_vocabs *v) {
    const char *from = v->s->codes_from;
    if (from == NULL) { /* pieces of a run's vocabulary are those of its codes */
        TRY(whose_words(ctx, v->s, &from));
        from = is_folder(from) ? from : NULL;
    }
    for (int side = 0; side < KIND_SIDES; side++) {
        if (ebb__vocabs_has_codes(v->s, (kind_side)side)) {
            TRY(from != NULL ? load_codes(ctx, v->s, from, (kind_side)side, &v->codes[side])
                             : learn_codes(ctx, most, v->s, (kind_side)side, &v->codes[side]));
        }
    }
    ebb__vocabs_join_codes(v);
    bool bytes = codes_of_bytes(&v->codes[KIND_SOURCE]) || codes_of_bytes(&v->codes[KIND_TARGET]);
    return v->s->codes_dropout == 0 || !bytes
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE,
                           "--codes-dropout puts words together from their pieces, which codes of "
                           "bytes (GPT-2's) do not tell: leave it out, or learn --codes N");
}

/* Counted in the texts or, where vocabularies are there, added to them. A shared vocabulary is that
 * of both texts. */
static ebb_status count_words(ebb_ctx *ctx, uint64_t most, bool add, text_vocabs *v) {
    const train_settings *s = v->s;
    side_texts texts = texts_of(s, false);
    job_request limits = {0};
    s->kind->vocab_sizes(s, &limits);
    if (add) {
        limits.vocab = limits.src_vocab = s->new_words;
    }
    for (int side = 0; side < KIND_SIDES; side++) {
        bool shared = kind_has_pairs(s) && !ebb__vocabs_has(s, KIND_SOURCE);
        vocab_options options = {
            .mode = s->tokens,
            .codes = ebb__vocabs_codes(v, (kind_side)side),
            .drop = s->codes_dropout,
            .seed = s->seed,
            .also = shared ? texts.at[KIND_TARGET] : NULL,
            .limit = (size_t)(side == KIND_SOURCE ? limits.src_vocab : limits.vocab),
            .max_bytes = most};
        if (ebb__vocabs_has(s, (kind_side)side)) {
            const char *text = texts.at[shared ? KIND_SOURCE : side];
            TRY(add ? ebb__vocab_extend(&v->at[side], text, &options)
                    : ebb__vocab_build(ctx, text, &options, &v->at[side]));
        }
    }
    return EBB_OK;
}

/* A vocabulary that GPT-2's files are. */
static ebb_status load_pieces(ebb_ctx *ctx, const char *from, data_vocab *out) {
    gpt2_ids ids;
    TRY(ebb__gpt2_load_ids(ctx, from, EBB_MODEL, &ids));
    *out = ids.pieces;
    return EBB_OK;
}

/* Vocabularies that were given: those of a run, GPT-2's, or a file for every side. */
static ebb_status load_words(ebb_ctx *ctx, const char *from, text_vocabs *v) {
    char path[JOB_PATH_BYTES];
    for (int side = 0; side < KIND_SIDES; side++) {
        if (ebb__vocabs_has(v->s, (kind_side)side)) {
            TRY(ebb__vocabs_path(ctx, v->s, (kind_side)side, from, false, path));
            TRY(!ebb__file_exists(path) && ebb__gpt2_is_folder(from)
                    ? load_pieces(ctx, from, &v->at[side])
                    : ebb__vocab_load(ctx, is_folder(from) ? path : from, &v->at[side]));
        }
    }
    ebb__vocabs_join_codes(v);
    return EBB_OK;
}

ebb_status ebb__texts_take_words(ebb_ctx *ctx, uint64_t most, text_vocabs *v, uint64_t *given) {
    const char *from = NULL;
    TRY(whose_words(ctx, v->s, &from));
    if (from == NULL && v->s->new_words > 0) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--new-words adds to the vocabulary of a run: it needs --init DIR or "
                         "--vocab DIR");
    }
    TRY(from != NULL ? load_words(ctx, from, v) : count_words(ctx, most, false, v));
    *given = ebb__vocabs_hash(v);
    return v->s->new_words > 0 ? count_words(ctx, most, true, v) : EBB_OK;
}

ebb_status ebb__texts_measure(corpus *c, uint64_t most, job_request *request) {
    text_corpus *t = (text_corpus *)c;
    ebb__sentence_set_init(&t->train);
    ebb__sentence_set_init(&t->valid);
    c->sets[0] = &t->train, c->sets[1] = &t->valid;
    t->vocabs.s = c->s;
    TRY(c->resumed ? ebb__vocabs_load(c->ctx, c->dir, false, &t->vocabs)
                   : ebb__texts_take_codes(c->ctx, most, &t->vocabs));
    TRY(c->s->kind->sentences(c->s) ? scan(t) : EBB_OK);
    TRY(c->resumed ? EBB_OK : ebb__texts_take_words(c->ctx, most, &t->vocabs, &t->given_hash));
    uint64_t hash = ebb__vocabs_hash(&t->vocabs);
    if (c->resumed && hash != c->vocab_hash) {
        return ebb__fail(c->ctx, EBB_MODEL,
                         "%s: its vocabulary is not the one that the run was started with", c->dir);
    }
    c->vocab_hash = hash;
    request->src_vocab = ebb__vocabs_of(&t->vocabs, KIND_SOURCE)->count;
    request->vocab = ebb__vocabs_of(&t->vocabs, KIND_TARGET)->count;
    return ebb__use_check_init(c, t->given_hash);
}

/* ---- files of the run ---- */

/* A text as ids, "train.tokens", or two, "train.src.tokens" and "train.tgt.tokens", and of
 * sentences an index of them. */
static ebb_status store_set(text_corpus *t, bool valid, sentence_set *set, uint64_t *hash) {
    const corpus *c = &t->base;
    bool pairs = kind_has_pairs(c->s);
    const char *const parts[] = {"src.tokens", pairs ? "tgt.tokens" : "tokens", "index"};
    char file[64], path[KIND_SIDES + 1][JOB_PATH_BYTES];
    const char *const paths[] = {path[0], path[1], path[2]};
    const data_vocab *vocabs[] = {ebb__vocabs_of(&t->vocabs, KIND_SOURCE),
                                  ebb__vocabs_of(&t->vocabs, KIND_TARGET)};
    side_texts texts = texts_of(c->s, valid);
    for (int i = 0; i <= KIND_SIDES; i++) {
        (void)snprintf(file, sizeof file, "%s.%s", valid ? "valid" : "train", parts[i]);
        TRY(ebb__job_path(c->ctx, c->dir, file, path[i]));
    }
    TRY(c->s->kind->sentences(c->s)
            ? ebb__sentence_set_store(c->ctx, c->s, texts.at, vocabs, paths, true, set)
            : ebb__tokens_ensure(c->ctx, texts.at[KIND_TARGET], c->s->tokens, vocabs[KIND_TARGET],
                                 paths[KIND_TARGET], &set->tokens[KIND_TARGET]));
    *hash = ebb__kind_join_hashes(c->s, set->tokens[KIND_SOURCE].ids_hash,
                                  set->tokens[KIND_TARGET].ids_hash);
    return EBB_OK;
}

ebb_status ebb__texts_save(corpus *c) {
    return ebb__vocabs_save(c->ctx, c->dir, &((text_corpus *)c)->vocabs);
}

ebb_status ebb__texts_store(corpus *c) {
    text_corpus *t = (text_corpus *)c;
    bool pairs = kind_has_pairs(c->s);
    uint64_t hash = 0;
    TRY(store_set(t, false, &t->train, &hash));
    TRY(ebb__corpus_same(c, c->s->train_path,
                         pairs ? t->train.sentences : t->train.tokens[KIND_TARGET].count, hash,
                         pairs ? "pairs" : "tokens"));
    TRY(c->s->kind->sentences(c->s) ? ebb__sentence_set_held(&t->train, c->dir) : EBB_OK);
    if (c->s->valid_path != NULL) {
        TRY(store_set(t, true, &t->valid, &hash));
        TRY(ebb__corpus_same_valid(c, c->s->valid_path, hash));
    }
    TRY(c->resumed ? EBB_OK : ebb__texts_save(c));
    ebb__vocabs_free(&t->vocabs);
    return EBB_OK;
}

ebb_status ebb__texts_adopt(corpus *c) {
    return ebb__vocabs_adopt(c->ctx, c->dir, &((text_corpus *)c)->vocabs);
}

void ebb__texts_close(corpus *c) {
    text_corpus *t = (text_corpus *)c;
    ebb__vocabs_free(&t->vocabs);
    ebb__sentence_set_close(&t->train);
    ebb__sentence_set_close(&t->valid);
}

/* ---- whether texts are those of the run ---- */

/* What the texts are to a model that has these vocabularies. */
static ebb_status hash_texts(const corpus *c, const text_vocabs *v, bool valid, uint64_t *out) {
    side_texts texts = texts_of(c->s, valid);
    uint64_t hash[KIND_SIDES] = {0, 0};
    for (int side = 0; side < KIND_SIDES; side++) {
        if (texts.at[side] != NULL) {
            TRY(ebb__tokens_hash(c->ctx, texts.at[side], c->s->tokens,
                                 ebb__vocabs_of(v, (kind_side)side), &hash[side]));
        }
    }
    *out = ebb__kind_join_hashes(c->s, hash[KIND_SOURCE], hash[KIND_TARGET]);
    return EBB_OK;
}

ebb_status ebb__texts_compare(const corpus *stored, const char *dir, bool *train, bool *valid) {
    text_vocabs vocabs = {.s = stored->s};
    uint64_t train_hash = 0, valid_hash = stored->valid_hash;
    ebb_status status;
    TRY_OUT(ebb__vocabs_load(stored->ctx, dir, false, &vocabs));
    TRY_OUT(hash_texts(stored, &vocabs, false, &train_hash));
    if (stored->s->valid_path != NULL && stored->valid_hash != 0) {
        TRY_OUT(hash_texts(stored, &vocabs, true, &valid_hash));
    }
    *train = train_hash == stored->train_hash;
    *valid = valid_hash == stored->valid_hash;
out:
    ebb__vocabs_free(&vocabs);
    return status;
}
