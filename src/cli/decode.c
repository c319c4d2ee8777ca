/* decode.c - `ebb decode DIR`: translations of standard input on standard output, line by line and
 * as soon as they are known. A line that cannot be understood is translated all the same: what
 * comes out has as many lines as what went in. */
#include "cli/command.h"

#include "base/host.h"
#include "cli/input.h"
#include "kind/stored.h"
#include "page/attention.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

typedef struct decoder {
    cli_call *call;
    cli_input input;
    attention_log attention;
    bool attending;
    bool unflushed, broken; /* something was written since; standard output takes no more */
    uint64_t done;          /* lines */
    double began;
} decoder;

/* ---- output ---- */

static void put(void *user, const char *bytes, size_t n) {
    decoder *d = user;
    d->broken = d->broken || fwrite(bytes, 1, n, stdout) != n;
}

static void put_scored(decoder *d, const decode_result *result, const translate_hypothesis *one) {
    char text[80];
    int n = snprintf(text, sizeof text, "%" PRIu64 " ||| ", result->line - 1);
    put(d, text, (size_t)n);
    ebb__decode_text(result, one, put, d);
    n = snprintf(text, sizeof text, " ||| %.6f ||| %.6f\n", one->log_prob, one->score);
    put(d, text, (size_t)n);
}

/* On a terminal, unless the translations themselves are seen there. */
static void show_progress(decoder *d) {
    cli_progress *progress = &d->call->progress;
    double now = ebb__clock_seconds();
    if (!progress->live || now - progress->drawn_at < 0.2 || isatty(STDOUT_FILENO)) {
        return;
    }
    progress->drawn_at = now;
    ebb__cli_progress_clear(progress);
    int n = fprintf(stderr, "%" PRIu64 " sentences, %s/s", d->done,
                    ebb__unit_rate((double)d->done / (now - d->began)).text);
    (void)fflush(stderr);
    progress->drawn = n > 0 ? (size_t)n : 0;
}

static ebb_status on_write(void *user, const decode_result *result) {
    decoder *d = user;
    int64_t nbest = d->call->settings.nbest;
    if (nbest == 1) {
        ebb__decode_text(result, &result->found->best[0], put, d);
        put(d, "\n", 1);
    }
    for (int32_t i = 0; nbest > 1 && i < result->found->n; i++) {
        put_scored(d, result, &result->found->best[i]);
    }
    d->done = result->line;
    d->unflushed = true;
    show_progress(d);
    return d->attending ? ebb__attention_add(&d->attention, result) : EBB_OK;
}

/* ---- input ---- */

/* What is known leaves before the next line is waited for. */
static ebb_status on_read(void *user, decode_line *line, translate_next *got) {
    decoder *d = user;
    if (d->unflushed) {
        d->broken = fflush(stdout) != 0 || d->broken;
        d->unflushed = false;
    }
    if (d->broken) {
        *got = TRANSLATE_END;
        return EBB_OK;
    }
    return ebb__input_next(&d->input, line, got);
}

static bool on_stop(void *user) {
    return ((decoder *)user)->broken || ebb__cli_stop_asked();
}

/* ---- how it ended ---- */

static void warn(decoder *d, uint64_t n, uint64_t first, const char *what) {
    if (n > 0) {
        ebb__log(d->call->ctx, EBB_LOG_WARN,
                 "%" PRIu64 " line%s %s (the first is line %" PRIu64 ")", n, n == 1 ? "" : "s",
                 what, first);
    }
}

static void report(decoder *d, const decode_summary *s) {
    const cli_settings *asked = &d->call->settings;
    ebb__cli_progress_clear(&d->call->progress);
    warn(d, d->input.odd, d->input.first_odd,
         "with zero bytes or bytes that are not UTF-8: such words are unknown");
    warn(d, d->input.too_long, d->input.first_too_long, "above 4 MiB: only the beginning was read");
    if (s->cut > 0) {
        char what[160];
        (void)snprintf(what, sizeof what,
                       "with more than %" PRIu64 " tokens: only so many were translated; a larger "
                       "--memory has room for more, up to 2047",
                       s->most_tokens);
        warn(d, s->cut, s->first_cut, what);
    }
    if (asked->verbose || (d->call->progress.live && !asked->quiet)) {
        (void)fprintf(stderr,
                      "%" PRIu64 " sentences (%" PRIu64 " tokens, %" PRIu64
                      " unknown) in %.2f s: %s sentences/s, %" PRId64
                      " at once; most memory %" PRIu64 " bytes, planned %" PRIu64 "\n",
                      s->lines, s->tokens, s->unknown, s->seconds,
                      ebb__unit_rate((double)s->lines / (s->seconds > 0 ? s->seconds : 1)).text,
                      s->batch, s->measured_peak_bytes, s->planned_peak_bytes);
    }
}

/* What was translated before a signal stays; where standard output failed, main() says so. */
static ebb_status finish(decoder *d, ebb_status status) {
    const cli_settings *asked = &d->call->settings;
    bool stopped = status == EBB_STOPPED || (status == EBB_OK && ebb__cli_stop_asked());
    d->broken = fflush(stdout) != 0 || d->broken;
    if (d->broken && (status == EBB_OK || stopped)) {
        ebb__ctx_clear(d->call->ctx);
        return EBB_OK;
    }
    if (status != EBB_OK && !stopped) {
        return status;
    }
    TRY(ebb__attention_commit(&d->attention));
    if (asked->attention_svg != NULL) {
        TRY(ebb__attention_draw(&d->attention, asked->attention_svg, NULL));
    }
    if (stopped) {
        ebb__ctx_clear(d->call->ctx);
        return ebb__fail(d->call->ctx, EBB_STOPPED, "stopped after %" PRIu64 " lines", d->done);
    }
    return EBB_OK;
}

static ebb_status check(const cli_settings *asked) {
    return asked->nbest <= asked->beam
               ? EBB_OK
               : ebb__fail(asked->ctx, EBB_USAGE,
                           "--nbest %" PRId64 " is more than --beam %" PRId64
                           ": no more translations are found than are followed",
                           asked->nbest, asked->beam);
}

ebb_status ebb__cli_decode(cli_call *call) {
    const cli_settings *asked = &call->settings;
    decoder d = {.call = call, .began = ebb__clock_seconds()};
    d.attending = asked->attention != NULL || asked->attention_svg != NULL;
    decode_options options = {asked->beam,      asked->nbest,    asked->alpha,
                              asked->max_ratio, d.attending,     ebb__cli_given(asked, "batch"),
                              asked->unk,       call->words + 1, call->n_words - 1};
    decode_io io = {&d, on_read, on_write, on_stop};
    decode_summary summary = {0};
    cli_settings run = {.ctx = call->ctx};
    ebb_status status;
    TRY(check(asked));
    ebb__region_init(&run.region, call->ctx);
    TRY_OUT(ebb__cli_settings_init(call->ctx, asked->run.kind, &run));
    TRY_OUT(ebb__cli_load_run(asked, call->words[0], &run));
    TRY_OUT(ebb__stored_others(call->ctx, &run.run, call->words[0], options.more, options.n_more));
    run.run.batch = asked->run.batch;
    run.run.shards = 1;
    TRY_OUT(ebb__attention_open(call->ctx, asked->attention,
                                asked->attention_svg != NULL ? ATTENTION_PICTURES : 0,
                                &d.attention));
    TRY_OUT(
        ebb__input_open(call->ctx, STDIN_FILENO, "standard input", ebb__cli_stop_asked, &d.input));
    call->progress.drawn_at = d.began;
    ebb__cli_catch_signals();
    status = ebb__job_decode(call->ctx, &run.run, call->words[0], &options, &io, &summary);
    if (status == EBB_OK || status == EBB_STOPPED) {
        report(&d, &summary);
    }
    status = finish(&d, status);
out:
    ebb__input_close(&d.input);
    ebb__attention_close(&d.attention);
    ebb__cli_settings_fini(&run);
    return status;
}
