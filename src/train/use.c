/* use.c - a trained run opened for one use, used and closed: what a command does. */
#include "train/kind.h"

static ebb_status close_after(kind_open *open, ebb_status status) {
    if (open != NULL) {
        open->close(open);
    }
    return status;
}

ebb_status ebb__job_decode(ebb_ctx *ctx, const train_settings *s, const char *dir,
                           const decode_options *options, const decode_io *io,
                           decode_summary *out) {
    kind_open *open = NULL;
    ebb_status status;
    *out = (decode_summary){0};
    TRY_OUT(s->kind->decode_open(ctx, s, dir, options, &open));
    status = s->kind->decode(open, io, out);
out:
    return close_after(open, status);
}

ebb_status ebb__job_generate(ebb_ctx *ctx, const train_settings *s, const char *dir,
                             const generate_options *options, generate_fn emit, void *user) {
    kind_open *open = NULL;
    ebb_status status;
    TRY_OUT(s->kind->generate_open(ctx, s, dir, &open));
    status = s->kind->generate(open, options, emit, user);
out:
    return close_after(open, status);
}

ebb_status ebb__job_predict(ebb_ctx *ctx, const train_settings *s, const char *dir,
                            const predict_options *options, predict_fn emit, void *user,
                            predict_summary *out) {
    train_settings settings = *s;
    kind_open *open = NULL;
    ebb_status status;
    *out = (predict_summary){0};
    settings.batch = options->n < (size_t)s->batch ? (int64_t)options->n : s->batch;
    TRY_OUT(s->kind->predict_open(ctx, &settings, dir, &open));
    status = s->kind->predict(open, options, emit, user, out);
out:
    return close_after(open, status);
}
