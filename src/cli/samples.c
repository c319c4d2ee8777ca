/* samples.c - a few lines of a run's validation text, translated to be looked at. */
#include "cli/samples.h"

#include "base/file.h"
#include "cli/input.h"
#include "data/codes.h"
#include "data/vocab.h"
#include "decode/words.h"

#include <string.h>

enum { SAMPLE_BEAM = 5 };

typedef struct sampler {
    sample_set *set;
    int32_t given;
    page_text text;
} sampler;

/* ---- the texts ---- */

static bool never(void) {
    return false;
}

static ebb_status read_side(ebb_ctx *ctx, const char *path, sample_set *set, bool target) {
    cli_input input = {.ctx = ctx};
    uint64_t bytes = 0;
    int fd = -1;
    int32_t n = 0;
    ebb_status status;
    TRY_OUT(ebb__file_open(ctx, path, &fd, &bytes));
    TRY_OUT(ebb__input_open(ctx, fd, path, never, &input));
    for (; n < SAMPLES; n++) {
        decode_line line;
        translate_next got;
        char *copy = NULL;
        do {
            TRY_OUT(ebb__input_next(&input, &line, &got));
        } while (got == TRANSLATE_PAUSE);
        if (got == TRANSLATE_END) {
            break;
        }
        TRY_OUT(ebb__region_alloc(&set->attention.region, line.bytes + 1, 1, &copy));
        memcpy(copy, line.text, line.bytes);
        *(target ? &set->lines[n].target : &set->lines[n].source) = copy;
    }
    set->n = target && set->n < n ? set->n : n;
out:
    ebb__input_close(&input);
    ebb__file_close(fd);
    return status;
}

/* ---- their translations ---- */

static ebb_status on_read(void *user, decode_line *line, translate_next *got) {
    sampler *s = user;
    *got = s->given < s->set->n ? TRANSLATE_SENTENCE : TRANSLATE_END;
    if (*got == TRANSLATE_SENTENCE) {
        const char *text = s->set->lines[s->given++].source;
        *line = (decode_line){text, strlen(text)};
    }
    return EBB_OK;
}

static ebb_status on_write(void *user, const decode_result *result) {
    sampler *s = user;
    const translate_hypothesis *best = &result->found->best[0];
    text_joint joint = codes_joint(result->mode, result->target->codes);
    s->text.used = 0;
    TRY(ebb__page_put(&s->text, "%s", ""));
    for (int32_t i = 0; i < best->length; i++) {
        size_t n = 0;
        bool space = false;
        const char *token = ebb__decode_word(result, best, i, &n);
        n = ebb__text_join(&joint, token, n, &space);
        TRY(ebb__page_put(&s->text, "%s", space ? " " : ""));
        TRY(ebb__attention_text(token, n, &s->text));
    }
    TRY(ebb__region_strdup(&s->set->attention.region, s->text.bytes,
                           &s->set->lines[result->line - 1].translation));
    return ebb__attention_add(&s->set->attention, result);
}

ebb_status ebb__samples_make(ebb_ctx *ctx, const train_settings *run, const char *dir,
                             sample_set *out) {
    sampler s = {.set = out, .text = {.ctx = ctx}};
    train_settings settings = *run;
    decode_options options = {
        .beam = SAMPLE_BEAM, .nbest = 1, .alpha = 1, .max_ratio = 2, .attention = true};
    decode_io io = {&s, on_read, on_write, NULL};
    decode_summary summary = {0};
    ebb_status status;
    *out = (sample_set){0};
    settings.batch = SAMPLES;
    settings.shards = 1;
    TRY_OUT(ebb__attention_open(ctx, NULL, SAMPLE_PICTURES, &out->attention));
    TRY_OUT(read_side(ctx, run->valid_path, out, false));
    TRY_OUT(read_side(ctx, run->valid_target, out, true));
    TRY_OUT(ebb__job_decode(ctx, &settings, dir, &options, &io, &summary));
out:
    ebb__page_text_fini(&s.text);
    return status;
}

void ebb__samples_close(sample_set *samples) {
    ebb__attention_close(&samples->attention);
}
