/* test_translate.c - translating with a model of random weights: a sentence's translations are the
 * same whoever stands beside it; greedy search and scores are those of the model's own logits, step
 * by step; attention is what its words say. */
#include "kind/kinds.h"
#include "kind/text/options.h"
#include "support/graphs.h"

#include "data/vocab.h"
#include "model/nmt.h"
#include "train/job_int.h"

#include <math.h>
#include <stdio.h>

enum { MAX_SRC = 14, SENTENCES = 37, V = 23, W = 29, PREDICT_T = 40, MOST = 64 };

/* A sentence's outcome, flat. */
typedef struct outcome {
    int32_t n, length[4];
    bool ended[4];
    double log_prob[4], score[4];
    int32_t tokens[4][MOST];
    float attention[MOST][MAX_SRC];
    int32_t source[MAX_SRC], source_length;
} outcome;

typedef struct stream {
    int32_t next, pause_every, since_pause;
    uint64_t written;
    bool attention;
    outcome out[SENTENCES];
    int stop_at; /* polls until a stop; < 0: never */
} stream;

static train_settings settings_of(int variant) {
    return (train_settings){.kind = &ebb__kind_nmt,
                            .cell = variant == 2 || variant == 5 ? LM_GRU : LM_LSTM,
                            .attention = variant == 1 ? NMT_DOT : NMT_MLP,
                            .hidden = 16,
                            .embed = 12,
                            .enc_layers = variant == 0 ? 1 : 2,
                            .dec_layers = variant == 0   ? 1
                                          : variant >= 4 ? 3
                                                         : 2,
                            .bidirectional = variant == 5,
                            .residual = variant == 5,
                            .init_decoder = variant >= 4,
                            .feed = variant != 1,
                            .layer_norm = variant == 3,
                            .src_len = MAX_SRC,
                            .tgt_len = PREDICT_T,
                            .batch = 1,
                            .shards = 1,
                            .max_len = MAX_SRC - 1,
                            .seed = 5,
                            .threads = 1,
                            .memory = {MEMORY_BYTES, (uint64_t)1 << 30, 0}};
}
enum { VARIANTS = 6 };

/* Lengths from 0 to the longest, any words. */
static int32_t sentence_length(int32_t i) {
    return i * 5 % MAX_SRC;
}

static ebb_status read_next(void *user, int32_t *ids, int32_t room, int32_t *n,
                            translate_next *got) {
    stream *s = user;
    *got = s->next == SENTENCES ? TRANSLATE_END : TRANSLATE_SENTENCE;
    if (s->pause_every > 0 && s->since_pause == s->pause_every) {
        s->since_pause = 0;
        *got = TRANSLATE_PAUSE;
    }
    if (*got == TRANSLATE_SENTENCE) {
        *n = sentence_length(s->next);
        assert_true(*n <= room);
        for (int32_t p = 0; p < *n; p++) {
            ids[p] = (s->next * 5 + p * p * 3 + 2) % W;
        }
        s->next++;
        s->since_pause++;
    }
    return EBB_OK;
}

static ebb_status write_next(void *user, const translate_result *r) {
    stream *s = user;
    assert_int_equal(r->number, s->written);
    outcome *o = &s->out[s->written++];
    o->n = r->n;
    o->source_length = r->source_length;
    memcpy(o->source, r->source, (size_t)r->source_length * sizeof *r->source);
    for (int32_t i = 0; i < r->n; i++) {
        const translate_hypothesis *h = &r->best[i];
        assert_true(h->length < MOST);
        o->length[i] = h->length;
        o->ended[i] = h->ended;
        o->log_prob[i] = h->log_prob;
        o->score[i] = h->score;
        memcpy(o->tokens[i], h->tokens, (size_t)h->length * sizeof *h->tokens);
    }
    assert_int_equal(r->best[0].attention != NULL, s->attention && r->source_length > 1);
    for (int32_t j = 0; s->attention && r->source_length > 1 && j < o->length[0] + o->ended[0];
         j++) {
        memcpy(o->attention[j], r->best[0].attention + j * r->source_length,
               (size_t)r->source_length * sizeof(float));
    }
    return EBB_OK;
}

static bool stop_asked(void *user) {
    stream *s = user;
    return s->stop_at == 0 || (s->stop_at > 0 && --s->stop_at == 0);
}

static translate_options options_of(int32_t slots, int32_t beam, int32_t nbest) {
    return (translate_options){
        .slots = slots, .beam = beam, .nbest = nbest, .max_src = MAX_SRC, .alpha = 0.7, .ratio = 2};
}

/* Weights large enough for the model to have opinions. */
static void sharpen(run_session *session, const train_settings *s) {
    assert_int_equal(ebb__ranks_draw(session, s->seed), EBB_OK);
    for (int32_t i = 0; i < session->plan->n_variables; i++) {
        const plan_variable *v = &session->plan->variables[i];
        float *data = ebb__run_variable(session, v->name, NULL);
        for (uint64_t k = 0; v->role == IR_PARAM && k < v->bytes / sizeof *data; k++) {
            data[k] *= 2;
        }
    }
}

static run_session *open_session(ebb_ctx *ctx, const train_settings *s, job_request request) {
    ebb_plan *plan = NULL;
    run_session *session = NULL;
    request.vocab = V;
    request.src_vocab = W;
    assert_ok(ctx, ebb__job_compile(ctx, s, &request, &plan));
    assert_ok(ctx, ebb__run_new(ctx, plan, &session));
    sharpen(session, s);
    return session;
}

static ebb_status translate(ebb_ctx *ctx, const train_settings *s, const translate_options *o,
                            stream *io) {
    run_session *session = open_session(ctx, s, (job_request){.decode = *o});
    io->attention = o->attention;
    ebb_status status = ebb__translate(session, (translate_uses){JOB_DECODE_STEP, JOB_DECODE_READ},
                                       o, &(translate_io){io, read_next, write_next, stop_asked});
    if (status == EBB_OK) {
        assert_int_equal(session->measured_bytes, session->plan->peak_bytes);
    }
    ebb__run_free(session);
    return status;
}

static stream *translate_all(ebb_ctx *ctx, const train_settings *s, const translate_options *o,
                             int32_t pause_every) {
    stream *io = calloc(1, sizeof *io);
    assert_non_null(io);
    io->pause_every = pause_every;
    io->stop_at = -1;
    assert_ok(ctx, translate(ctx, s, o, io));
    assert_int_equal(io->written, SENTENCES);
    return io;
}

/* ---- tests ---- */

static void neighbours_change_nothing(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int v = 0; v < VARIANTS; v++) {
        for (int32_t beam = 1; beam <= 4; beam += 3) {
            train_settings s = settings_of(v);
            translate_options o = options_of(8, beam, beam);
            stream *a = translate_all(ctx, &s, &o, 0);
            o.slots = 1;
            stream *b = translate_all(ctx, &s, &o, 0);
            o.slots = 5;
            s.threads = 2;
            stream *c = translate_all(ctx, &s, &o, 3);
            for (int i = 0; i < SENTENCES; i++) {
                assert_memory_equal(&a->out[i], &b->out[i], sizeof a->out[i]);
                assert_memory_equal(&a->out[i], &c->out[i], sizeof a->out[i]);
                assert_true(a->out[i].n >= 1);
                assert_int_equal(a->out[i].source_length, sentence_length(i) + 1);
                if (sentence_length(i) == 0) {
                    assert_int_equal(a->out[i].length[0], 0);
                }
            }
            free(a);
            free(b);
            free(c);
        }
    }
    test_ctx_free(ctx);
}

/* Logits [T, V] of the model when it is given these tokens; time descending. */
static const float *model_logits(run_session *session, const outcome *o, const int32_t *tokens,
                                 int32_t n) {
    int32_t *src = ebb__run_variable(session, NMT_SRC, NULL);
    int32_t *len = ebb__run_variable(session, NMT_SRC_LEN, NULL);
    int32_t *in = ebb__run_variable(session, NMT_TGT_IN, NULL);
    len[0] = o->source_length;
    for (int32_t p = 0; p < MAX_SRC; p++) {
        src[MAX_SRC - 1 - p] = p < o->source_length ? o->source[p] : VOCAB_EOS;
    }
    for (int32_t t = 0; t < PREDICT_T; t++) {
        in[PREDICT_T - 1 - t] = t > 0 && t <= n ? tokens[t - 1] : VOCAB_EOS;
    }
    assert_int_equal(ebb__run_step(session, 0), EBB_OK);
    return ebb__run_output(session, 0, NMT_LOGITS);
}

static double log_prob(const float *logits, int32_t token) {
    double most = -(double)INFINITY, sum = 0;
    for (int32_t i = 0; i < V; i++) {
        most = fmax(most, (double)logits[i]);
    }
    for (int32_t i = 0; i < V; i++) {
        sum += exp((double)logits[i] - most);
    }
    return (double)logits[token] - most - log(sum);
}

static void scores_are_those_of_the_model(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int v = 0; v < VARIANTS; v++) {
        train_settings s = settings_of(v);
        translate_options o = options_of(6, 4, 4);
        stream *io = translate_all(ctx, &s, &o, 0);
        run_session *session = open_session(ctx, &s, (job_request){.predict = true});
        int compared = 0;
        for (int i = 0; i < SENTENCES; i++) {
            const outcome *r = &io->out[i];
            for (int k = 0; k < r->n && r->source_length > 1; k++) {
                int32_t n = r->length[k] + r->ended[k];
                const float *logits = model_logits(session, r, r->tokens[k], r->length[k]);
                double sum = 0;
                for (int32_t t = 0; t < n; t++) {
                    int32_t token = t < r->length[k] ? r->tokens[k][t] : VOCAB_EOS;
                    sum += log_prob(logits + (PREDICT_T - 1 - t) * V, token);
                }
                assert_true(fabs(sum - r->log_prob[k]) < 1e-5 * fmax(1, fabs(sum)));
                assert_true(fabs(r->score[k] - sum / pow(n, 0.7)) < 1e-5);
                assert_true(k == 0 || r->score[k] <= r->score[k - 1]);
                compared++;
            }
        }
        assert_true(compared > SENTENCES);
        ebb__run_free(session);
        free(io);
    }
    test_ctx_free(ctx);
}

static void one_hypothesis_is_greedy(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int v = 0; v < VARIANTS; v++) {
        train_settings s = settings_of(v);
        translate_options o = options_of(4, 1, 1);
        stream *io = translate_all(ctx, &s, &o, 0);
        run_session *session = open_session(ctx, &s, (job_request){.predict = true});
        for (int i = 0; i < SENTENCES; i++) {
            const outcome *r = &io->out[i];
            if (r->source_length == 1) {
                continue;
            }
            const float *logits = model_logits(session, r, r->tokens[0], r->length[0]);
            for (int32_t t = 0; t < r->length[0] + r->ended[0]; t++) {
                const float *row = logits + (PREDICT_T - 1 - t) * V;
                int32_t best = 0;
                for (int32_t k = 1; k < V; k++) {
                    best = row[k] > row[best] ? k : best;
                }
                assert_int_equal(best, t < r->length[0] ? r->tokens[0][t] : VOCAB_EOS);
            }
            assert_true(r->ended[0] || r->length[0] == 2 * (r->source_length - 1) + 11);
        }
        ebb__run_free(session);
        free(io);
    }
    test_ctx_free(ctx);
}

static void attention_is_a_distribution(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    train_settings s = settings_of(0);
    translate_options o = options_of(6, 4, 2);
    stream *plain = translate_all(ctx, &s, &o, 0);
    o.attention = true;
    stream *wide = translate_all(ctx, &s, &o, 0);
    o.slots = 1;
    stream *narrow = translate_all(ctx, &s, &o, 0);
    for (int i = 0; i < SENTENCES; i++) {
        const outcome *r = &wide->out[i];
        assert_memory_equal(plain->out[i].tokens, r->tokens, sizeof r->tokens);
        assert_memory_equal(narrow->out[i].attention, r->attention, sizeof r->attention);
        for (int32_t j = 0; r->source_length > 1 && j < r->length[0] + r->ended[0]; j++) {
            double sum = 0;
            for (int32_t p = 0; p < r->source_length; p++) {
                assert_true(r->attention[j][p] >= 0);
                sum += (double)r->attention[j][p];
            }
            assert_true(fabs(sum - 1) < 1e-5);
        }
    }
    free(plain);
    free(wide);
    free(narrow);
    test_ctx_free(ctx);
}

/* What was done before a stop is given, in order. */
static void stopping_keeps_what_is_done(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    train_settings s = settings_of(0);
    translate_options o = options_of(4, 2, 1);
    stream *whole = translate_all(ctx, &s, &o, 0);
    uint64_t most = 0;
    for (int at = 1; at < 400; at += 17) {
        stream *io = calloc(1, sizeof *io);
        assert_non_null(io);
        io->stop_at = at;
        ebb_status status = translate(ctx, &s, &o, io);
        assert_true(status == EBB_STOPPED || (status == EBB_OK && io->written == SENTENCES));
        assert_memory_equal(io->out, whole->out, io->written * sizeof io->out[0]);
        most = io->written > most ? io->written : most;
        ebb__ctx_clear(ctx);
        free(io);
    }
    assert_true(most > 0);
    free(whole);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_change_nothing),
        cmocka_unit_test(scores_are_those_of_the_model),
        cmocka_unit_test(one_hypothesis_is_greedy),
        cmocka_unit_test(attention_is_a_distribution),
        cmocka_unit_test(stopping_keeps_what_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
