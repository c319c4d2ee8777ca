/* progress.c - how training is going: one line that is redrawn on a terminal, plain lines anywhere
 * else (never a carriage return in a log). No colours. */
#include "cli/command.h"

#include "base/host.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR_WIDTH = 16, LINE_MOST = 240, SAMPLE_MOST = 160 };
static const double redraw_seconds = 0.1;
static const double first_patience = 5; /* then twice as long every time */

void ebb__cli_progress_init(cli_progress *progress, const cli_settings *settings) {
    const char *terminal = getenv("TERM");
    *progress = (cli_progress){
        .kind = settings->run.kind, .quiet = settings->quiet, .verbose = settings->verbose};
    progress->live = !settings->quiet && isatty(STDERR_FILENO) && terminal != NULL &&
                     strcmp(terminal, "dumb") != 0;
}

void ebb__cli_progress_clear(cli_progress *progress) {
    if (progress->drawn > 0) {
        (void)fprintf(stderr, "\r%*s\r", (int)progress->drawn, "");
        progress->drawn = 0;
    }
}

static size_t terminal_width(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) {
        return 80;
    }
    return size.ws_col < LINE_MOST ? size.ws_col : LINE_MOST;
}

static void format_bar(char bar[BAR_WIDTH + 4], const job_progress *now) {
    double share = now->steps > 0 ? (double)now->step / (double)now->steps : 0;
    int full = (int)(fmin(fmax(share, 0), 1) * BAR_WIDTH);
    bar[0] = '[';
    memset(bar + 1, '=', (size_t)full);
    memset(bar + 1 + full, ' ', (size_t)(BAR_WIDTH - full));
    memcpy(bar + 1 + BAR_WIDTH, "] ", 3);
}

/* The gradient's norm only where there is room for it: not in the line that is redrawn. */
static void format_line(char line[LINE_MOST], const model_kind *kind, const job_progress *now,
                        bool tick) {
    char epochs[32] = "", steps[32] = "", valid[96] = "", loss[40] = "", norm[32] = "",
         left[40] = "";
    size_t used = 0;
    if (now->epochs > 0) {
        (void)snprintf(epochs, sizeof epochs, "/%" PRId64, now->epochs);
    }
    if (now->steps > 0) {
        (void)snprintf(steps, sizeof steps, "/%" PRId64, now->steps);
    }
    for (int32_t i = 0; i < kind->n_metrics; i++) {
        if (now->valid.at[i] >= 0) {
            int n = snprintf(valid + used, sizeof valid - used, "  %s %s", kind->metrics[i].brief,
                             ebb__unit_score(now->valid.at[i]).text);
            used += n > 0 && (size_t)n < sizeof valid - used ? (size_t)n : 0;
        }
    }
    if (kind->nats) {
        (void)snprintf(loss, sizeof loss, " (ppl %s)", ebb__unit_score(exp(now->loss)).text);
    }
    if (now->gradient_norm >= 0 && !tick) {
        (void)snprintf(norm, sizeof norm, "  gradient %.3g", now->gradient_norm);
    }
    if (now->seconds_left >= 0) {
        (void)snprintf(left, sizeof left, "  %s left", ebb__unit_seconds(now->seconds_left).text);
    }
    (void)snprintf(line, LINE_MOST,
                   "epoch %" PRId64 "%s  step %" PRId64 "%s  loss %.4f%s%s%s  %s %s/s  "
                   "%s of %s%s",
                   now->epoch, epochs, now->step, steps, now->loss, loss, valid, norm,
                   ebb__unit_rate(now->words_per_second).text, kind->unit,
                   ebb__unit_bytes(now->memory_bytes).text, ebb__unit_bytes(now->budget_bytes).text,
                   left);
}

static void draw(cli_progress *progress, const char *bar, const char *line) {
    char shown[LINE_MOST + BAR_WIDTH + 8];
    size_t width = terminal_width() - 1;
    (void)snprintf(shown, sizeof shown, "%s%s", strlen(bar) + strlen(line) <= width ? bar : "",
                   line);
    shown[width < sizeof shown - 1 ? width : sizeof shown - 1] = '\0';
    size_t n = strlen(shown);
    int rest = progress->drawn > n ? (int)(progress->drawn - n) : 0;
    (void)fprintf(stderr, "\r%s%*s", shown, rest, "");
    (void)fflush(stderr);
    progress->drawn = n + (size_t)rest;
}

void ebb__cli_progress_show(cli_progress *progress, const job_progress *now, bool tick) {
    char line[LINE_MOST], bar[BAR_WIDTH + 4];
    if (progress->quiet || (tick && !progress->live)) {
        return;
    }
    double seconds = ebb__clock_seconds();
    if (tick && seconds - progress->drawn_at < redraw_seconds) {
        return;
    }
    progress->drawn_at = seconds;
    if (strcmp(now->phase, "train") != 0 && tick) {
        (void)snprintf(line, sizeof line, "%s: %" PRId64 " of %" PRId64, now->phase, now->step,
                       now->steps);
    } else {
        format_line(line, progress->kind, now, tick);
    }
    if (tick) {
        format_bar(bar, now);
        draw(progress, bar, line);
        return;
    }
    ebb__cli_progress_clear(progress);
    (void)fprintf(stderr, "%s\n", line);
}

void ebb__cli_progress_plan(void *user, const char *what, uint64_t done, uint64_t total) {
    enum { MANY = 3 };
    cli_progress *progress = user;
    char line[LINE_MOST], bar[BAR_WIDTH + 4];
    double now = ebb__clock_seconds();
    bool plan = strcmp(what, "plan") == 0, images = strcmp(what, "make images") == 0;
    if (progress->quiet || total < MANY || !(plan || images)) {
        return;
    }
    if (plan) {
        (void)snprintf(line, sizeof line, "planning: %" PRIu64 " of %" PRIu64 " programs", done,
                       total);
    } else {
        (void)snprintf(line, sizeof line, "%s: %.0f%%", what, 100 * (double)done / (double)total);
    }
    if (progress->live && now - progress->drawn_at >= redraw_seconds) {
        job_progress share = {.step = (int64_t)done, .steps = (int64_t)total};
        progress->drawn_at = now;
        format_bar(bar, &share);
        draw(progress, bar, line);
    } else if (!progress->live && progress->waited <= 0) {
        progress->waited = now;
        progress->patience = first_patience;
    } else if (!progress->live && done > 0 && now - progress->waited >= progress->patience) {
        progress->waited = now;
        progress->patience *= 2;
        (void)fprintf(stderr, "%s\n", line);
    }
}

/* One short line: cut between characters, and without what a terminal would obey. */
static void print_text(const char *label, const char *text) {
    char shown[SAMPLE_MOST + 1];
    size_t n = strnlen(text, SAMPLE_MOST + 1);
    bool cut = n > SAMPLE_MOST;
    for (n = cut ? SAMPLE_MOST : n; cut && n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80;) {
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        shown[i] = c < 32 || c == 127 ? '?' : text[i];
    }
    shown[n] = '\0';
    (void)fprintf(stderr, "  %-12s %s%s\n", label, shown, cut ? "..." : "");
}

void ebb__cli_progress_sample(cli_progress *progress, const job_sample *sample) {
    if (progress->quiet) {
        return;
    }
    ebb__cli_progress_clear(progress);
    print_text("source", sample->source);
    print_text("reference", sample->target);
    print_text("translation", sample->translation);
}

void ebb__cli_log(void *user, ebb_log_level level, const char *line) {
    cli_progress *progress = user;
    ebb_log_level most = progress->quiet     ? EBB_LOG_WARN
                         : progress->verbose ? EBB_LOG_DEBUG
                                             : EBB_LOG_INFO;
    if (level <= most) {
        ebb__cli_progress_clear(progress);
        (void)fprintf(stderr, "%s%s\n", level == EBB_LOG_WARN ? "warning: " : "", line);
    }
}
