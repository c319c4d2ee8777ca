/* nmt_set.c - see nmt_set.h. */
#include "train/nmt_set.h"

#include "model/nmt.h"
#include "train/epoch_cost.h"
#include "train/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

nmt_set_input ebb__nmt_set_input(const char *input, int64_t length) {
    nmt_set_input name;
    (void)snprintf(name.text, sizeof name.text, "%s.%d", input, (int)length);
    return name;
}

void ebb__nmt_set_init(nmt_set *set) {
    *set = (nmt_set){.batches = {.index = -1}};
    for (int side = 0; side < KIND_SIDES; side++) {
        set->tokens[side].fd = -1;
    }
}

static void report_left_out(ebb_ctx *ctx, const lengths_texts *texts, const data_lengths *scan) {
    if (scan->over > 0) {
        ebb__log(ctx, EBB_LOG_WARN,
                 "%s, %s: %llu of %llu lines have more than %u tokens and are left out "
                 "(--max-len); the first is line %llu",
                 texts->source, texts->target, (unsigned long long)scan->over,
                 (unsigned long long)scan->lines, texts->max_len,
                 (unsigned long long)scan->first_over);
    }
    if (scan->empty > 0) {
        ebb__log(ctx, EBB_LOG_WARN,
                 "%s, %s: %llu of %llu lines are empty on a side and are left out; the first is "
                 "line %llu",
                 texts->source, texts->target, (unsigned long long)scan->empty,
                 (unsigned long long)scan->lines, (unsigned long long)scan->first_empty);
    }
}

ebb_status ebb__nmt_set_scan(ebb_ctx *ctx, const train_settings *s,
                             const char *const texts[KIND_SIDES], bool silent, nmt_set *set) {
    lengths_texts pair = {texts[KIND_SOURCE], texts[KIND_TARGET], (text_mode)s->tokens,
                          (uint32_t)s->max_len};
    TRY(ebb__lengths_scan(ctx, &pair, &set->lengths));
    if (!silent) {
        report_left_out(ctx, &pair, &set->lengths);
    }
    set->options =
        (pair_options){.max_len = pair.max_len, .rows = (uint32_t)s->batch, .seed = s->seed};
    set->pairs = set->lengths.used;
    set->left_out = set->lengths.lines - set->lengths.used;
    return EBB_OK;
}

/* ---- shapes ---- */

static int larger_first(const void *a, const void *b) {
    const bucket_bound *x = a, *y = b;
    uint64_t left = (uint64_t)x->source + x->target, right = (uint64_t)y->source + y->target;
    return left != right ? (left < right ? 1 : -1)
                         : (x->target < y->target) - (x->target > y->target);
}

ebb_status ebb__nmt_set_choose(const train_settings *s, const job_request *sizes, nmt_set *set) {
    enum { USUAL_BATCH = 64 };
    train_settings asked = *s;
    bucket_plan plan = {.ctx = NULL};
    asked.batch =
        s->batch > 0 ? s->batch : USUAL_BATCH; /* shapes come before the batch that fits */
    if (s->bucket == TRAIN_BUCKET_POOL) {
        return ebb__fail(set->lengths.ctx, EBB_USAGE,
                         "--bucket pool: batches of a pool have shapes of their own, and training "
                         "needs shapes known before it starts; use auto, optimal or greedy");
    }
    ebb_status status = ebb__bucket_choose(&asked, sizes, &set->lengths, &plan);
    if (status == EBB_OK) {
        set->options.n_shapes = plan.n_programs;
        memcpy(set->options.shapes, plan.programs, (size_t)plan.n_programs * sizeof *plan.programs);
        qsort(set->options.shapes, (size_t)plan.n_programs, sizeof *plan.programs, larger_first);
    }
    ebb__buckets_free(&plan);
    ebb__lengths_free(&set->lengths);
    return status;
}

ebb_status ebb__nmt_set_choose_few(const train_settings *s, nmt_set *set) {
    enum { FEW = 4 };
    train_settings few = *s;
    few.bucket = TRAIN_BUCKET_OPTIMAL;
    few.shapes = FEW;
    few.batch_tokens = 0;
    return ebb__nmt_set_choose(&few, NULL, set);
}

job_shapes ebb__nmt_set_shapes(const nmt_set *set) {
    job_shapes shapes = {.n = set->options.n_shapes};
    for (int32_t i = 0; i < shapes.n; i++) {
        shapes.at[i] = (job_shape){set->options.shapes[i].source, set->options.shapes[i].target};
    }
    return shapes;
}

ebb_status ebb__nmt_set_store(ebb_ctx *ctx, const train_settings *s,
                              const char *const texts[KIND_SIDES],
                              const data_vocab *const vocabs[KIND_SIDES],
                              const char *const paths[KIND_SIDES + 1], nmt_set *set) {
    for (int side = 0; side < KIND_SIDES; side++) {
        TRY(ebb__tokens_ensure(ctx, texts[side], (text_mode)s->tokens, vocabs[side], paths[side],
                               &set->tokens[side]));
    }
    return ebb__pair_batches_open(ctx, &set->tokens[KIND_SOURCE], &set->tokens[KIND_TARGET],
                                  &set->options, paths[KIND_SIDES], &set->batches);
}

static ebb_status fill(const job_reader *reader, run_session *session, uint64_t step,
                       int32_t *program, uint64_t *words) {
    const pair_batches *batches = reader->batches;
    pair_place place = ebb__pair_place(batches, step);
    bucket_bound shape = batches->classes[place.class].shape;
    pair_target to = {
        .source = ebb__run_variable(session, ebb__nmt_set_input(NMT_SRC, shape.source).text, NULL),
        .lengths = ebb__run_variable(session, NMT_SRC_LEN, NULL),
        .inputs =
            ebb__run_variable(session, ebb__nmt_set_input(NMT_TGT_IN, shape.target).text, NULL),
        .labels =
            ebb__run_variable(session, ebb__nmt_set_input(NMT_TGT_OUT, shape.target).text, NULL)};
    *program = reader->program + place.class;
    return ebb__pair_fill(batches, &place, &to, words);
}

job_reader ebb__nmt_set_reader(nmt_set *set, run_session *session, int32_t program) {
    set->batches.staging = ebb__run_variable(session, JOB_STAGING, NULL);
    return (job_reader){set->batches.windows, program, &set->batches, fill};
}

void ebb__nmt_set_close(nmt_set *set) {
    ebb__lengths_free(&set->lengths);
    ebb__pair_batches_close(&set->batches);
    for (int side = 0; side < KIND_SIDES; side++) {
        ebb__tokens_close(&set->tokens[side]);
    }
}
