/* forecast.c - `ebb plan --ranks N`: what a run on several processes would take, as text, as JSON,
 * as a picture and as traces for SimGrid; without MPI. */
#include "cli/command.h"

#include "base/file.h"
#include "page/picture.h"
#include "train/forecast.h"
#include "train/kind.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const reduce_names[] = {[TRAIN_REDUCE_AUTO] = "auto",
                                           [TRAIN_REDUCE_SLICES] = "slices",
                                           [TRAIN_REDUCE_COPIES] = "copies",
                                           [TRAIN_REDUCE_CENTRAL] = "central"};
static const char *const advice_names[] = {
    [ADVICE_NEITHER] = "neither", [ADVICE_DATA] = "data", [ADVICE_STAGES] = "stages"};

/* ---- text ---- */

/* "stages (--stages 4), 2.9 times as fast as one process". */
static cli_line name_advice(const job_forecast *f) {
    cli_line out;
    const forecast_way *way = f->advice == ADVICE_STAGES ? &f->stages : &f->data;
    char speed[64];
    if (f->one_fits) {
        (void)snprintf(speed, sizeof speed, "%.2f times as fast as one", forecast_speedup(f, way));
    } else {
        (void)snprintf(speed, sizeof speed, "one process has too little memory");
    }
    if (f->advice == ADVICE_NEITHER) {
        (void)snprintf(out.text, sizeof out.text, "neither is worth it%s",
                       f->one_fits ? ": take one process" : "");
    } else if (f->advice == ADVICE_STAGES) {
        (void)snprintf(out.text, sizeof out.text, "stages (--stages %" PRId64 "): %s", way->stages,
                       speed);
    } else {
        (void)snprintf(out.text, sizeof out.text, "data parallel: %s", speed);
    }
    return out;
}

/* The other way that was tried, if one was. */
static cli_line name_other(const job_forecast *f) {
    cli_line out = {""};
    const forecast_way *other = f->advice == ADVICE_STAGES ? &f->data : &f->stages;
    if (f->data.stages > 0 && f->stages.stages > 0) {
        (void)snprintf(out.text, sizeof out.text, "; %s: %.4f s a step",
                       f->advice == ADVICE_STAGES ? "data parallel" : "stages", other->seconds);
    }
    return out;
}

static cli_line name_network(const forecast_network *network) {
    cli_line out;
    if (network->copied) {
        (void)snprintf(out.text, sizeof out.text, "shared memory");
    } else {
        double bits = 8 * network->bytes_per_second;
        (void)snprintf(out.text, sizeof out.text, "%g %s/s, %g us", bits / (bits < 1e9 ? 1e6 : 1e9),
                       bits < 1e9 ? "Mbit" : "Gbit", 1e6 * network->latency);
    }
    return out;
}

static cli_line name_processes(const job_forecast *f) {
    cli_line out;
    (void)snprintf(
        out.text, sizeof out.text,
        "%d process%s of %d thread%s, %" PRId64 " stage%s, %" PRId64 " shard%s, reduce %s, %.40s",
        f->ranks, f->ranks == 1 ? "" : "es", f->threads, f->threads == 1 ? "" : "s", f->way.stages,
        f->way.stages == 1 ? "" : "s", f->way.shards, f->way.shards == 1 ? "" : "s",
        reduce_names[f->reduce.way], name_network(&f->network).text);
    return out;
}

/* "0.4398 s a step". */
static cli_line name_seconds(double seconds) {
    cli_line out;
    (void)snprintf(out.text, sizeof out.text, isfinite(seconds) ? "%.4f s a step" : "does not fit",
                   seconds);
    return out;
}

static void print_text(const train_settings *s, const job_forecast *f) {
    printf("%s: planned in %.2f s\n  %s\n", ebb__cli_model(s).text, f->plan_seconds,
           name_processes(f).text);
    printf("  rank  stage        bytes        busy     waiting  messages        sent\n");
    for (int32_t r = 0; r < f->ranks; r++) {
        const forecast_part *p = &f->parts[r];
        printf("  %4d  %5d  %11s  %7.2f ms  %7.2f ms  %8.0f  %10s\n", r, p->stage,
               ebb__unit_bytes(p->planned_peak_bytes).text, 1e3 * p->busy_seconds,
               1e3 * p->waiting_seconds, p->messages,
               ebb__unit_bytes((uint64_t)p->sent_bytes).text);
    }
    printf("  predicted     %10.4f s a step, %s %s/s\n", f->way.seconds,
           ebb__unit_rate(f->words_per_step / f->way.seconds).text, s->kind->unit);
    printf("  waiting       %9.1f%% of all time (bubble), at most %.1f%%; messages %.1f%%\n",
           100 * f->bubble_share, 100 * f->exposed_share, 100 * f->message_share);
    if (f->one_fits) {
        printf("  speed-up      %10.2f over one process (%.4f s, %" PRId64 " shard%s)\n",
               forecast_speedup(f, &f->way), f->one.seconds, f->one.shards,
               f->one.shards == 1 ? "" : "s");
    }
    if (f->reduce.slices > 0) {
        printf("  reduce auto   %10s: slices %s, copies %s\n", reduce_names[f->reduce.way],
               name_seconds(f->reduce.slices).text, name_seconds(f->reduce.copies).text);
    }
    printf("  largest rank  %10s = %" PRIu64 " bytes, %.2f of one process (%s%s)\n",
           ebb__unit_bytes(f->way.largest_bytes).text, f->way.largest_bytes,
           (double)f->way.largest_bytes / (double)f->one.largest_bytes,
           ebb__unit_bytes(f->one.largest_bytes).text, f->one_fits ? "" : ", which does not fit");
    printf("  advice        %s%s\n", name_advice(f).text, name_other(f).text);
}

/* ---- JSON ---- */

static json_t *part_json(int32_t rank, const forecast_part *p) {
    return json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "rank", rank, "stage", p->stage,
                     "planned_peak_bytes", ebb__cli_json_bytes(p->planned_peak_bytes), "sent_bytes",
                     ebb__cli_json_real(p->sent_bytes), "messages", ebb__cli_json_real(p->messages),
                     "busy_seconds", ebb__cli_json_real(p->busy_seconds), "waiting_seconds",
                     ebb__cli_json_real(p->waiting_seconds));
}

static json_t *speedup_json(const job_forecast *f, const forecast_way *way) {
    double speedup = forecast_speedup(f, way);
    return speedup > 0 ? ebb__cli_json_real(speedup) : json_null();
}

/* What --reduce auto chose by, null where it does not fit; null: there was nothing to choose. */
static json_t *reduce_json(const job_reduce *reduce) {
    return reduce->slices <= 0
               ? json_null()
               : json_pack(
                     "{s:o, s:o}", "slices",
                     isfinite(reduce->slices) ? ebb__cli_json_real(reduce->slices) : json_null(),
                     "copies",
                     isfinite(reduce->copies) ? ebb__cli_json_real(reduce->copies) : json_null());
}

/* null: it was not tried, or cannot be done. */
static json_t *way_json(const job_forecast *f, const forecast_way *way) {
    return way->stages == 0
               ? json_null()
               : json_pack("{s:I, s:I, s:o, s:o, s:o}", "stages", (json_int_t)way->stages, "shards",
                           (json_int_t)way->shards, "seconds_per_step",
                           ebb__cli_json_real(way->seconds), "largest_rank_bytes",
                           ebb__cli_json_bytes(way->largest_bytes), "speedup",
                           speedup_json(f, way));
}

static json_t *network_json(const forecast_network *network) {
    return json_pack("{s:b, s:o, s:o}", "shared_memory", network->copied, "bytes_per_second",
                     ebb__cli_json_real(network->bytes_per_second), "latency_seconds",
                     ebb__cli_json_real(network->latency));
}

static json_t *to_json(const train_settings *s, const job_forecast *f) {
    char rate[32];
    (void)snprintf(rate, sizeof rate, "%s_per_second", s->kind->unit);
    json_t *list = json_array();
    bool done = list != NULL;
    for (int32_t r = 0; done && r < f->ranks; r++) {
        done = json_array_append_new(list, part_json(r, &f->parts[r])) == 0;
    }
    if (!done) {
        json_decref(list);
        return NULL;
    }
    return json_pack(
        "{s:i, s:I, s:o, s:I, s:I, s:s, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:b, "
        "s:o, "
        "s:o, s:s, s:o, s:o, s:o}",
        "schema", 1, "batch", (json_int_t)s->batch, "ranks", list, "stages",
        (json_int_t)f->way.stages, "shards", (json_int_t)f->way.shards, "reduce",
        reduce_names[f->reduce.way], "reduce_auto", reduce_json(&f->reduce), "threads", f->threads,
        "network", network_json(&f->network), "seconds_per_step",
        ebb__cli_json_real(f->way.seconds), rate,
        ebb__cli_json_real(f->words_per_step / f->way.seconds), "bubble_share",
        ebb__cli_json_real(f->bubble_share), "exposed_share", ebb__cli_json_real(f->exposed_share),
        "message_share", ebb__cli_json_real(f->message_share), "speedup", speedup_json(f, &f->way),
        "largest_rank_bytes", ebb__cli_json_bytes(f->way.largest_bytes), "one_rank_bytes",
        ebb__cli_json_bytes(f->one.largest_bytes), "one_rank_fits", f->one_fits, "one_rank_seconds",
        f->one_fits ? ebb__cli_json_real(f->one.seconds) : json_null(), "bytes_share",
        ebb__cli_json_real((double)f->way.largest_bytes / (double)f->one.largest_bytes), "advice",
        advice_names[f->advice], "data", way_json(f, &f->data), "pipeline", way_json(f, &f->stages),
        "plan_seconds", ebb__cli_json_real(f->plan_seconds));
}

/* ---- picture ---- */

static ebb_status draw(ebb_ctx *ctx, const cli_settings *settings, const job_forecast *f) {
    cli_line model = ebb__cli_model(&settings->run);
    page_picture picture = {.path = settings->svg, .model = model.text};
    char what[256];
    (void)snprintf(what, sizeof what, "%s: %.4g s a step predicted", name_processes(f).text,
                   f->step.seconds);
    return ebb__draw_ranks(ctx, &f->step, (int32_t)f->way.stages, what, &picture);
}

/* ---- traces ---- */

enum { TRACE_BYTE = 6 };               /* what SimGrid calls MPI_BYTE */
static const double TRACE_SPEED = 1e9; /* work of a host in a second */
/* In shared memory bytes cost the receiver's processor, and the way there nothing. */
static const double TRACE_AT_ONCE = 1e15;

typedef struct trace_writer {
    const job_forecast *f;
    const char *dir;
    page_text text;
} trace_writer;

static ebb_status put_item(trace_writer *w, int32_t rank, const forecast_list *list, int32_t i) {
    const forecast_item *item = &list->items[i];
    const forecast_item *start = &list->items[item->started >= 0 ? item->started : i];
    const forecast_network *network = &w->f->network;
    bool waits = item->message == MESSAGE_SENT || item->message == MESSAGE_GOT;
    if (item->message == MESSAGE_SEND || item->message == MESSAGE_RECV) {
        TRY(ebb__page_put(&w->text, "%d %s %d %d %" PRIu64 " %d\n", rank,
                          item->message == MESSAGE_SEND ? "isend" : "irecv", item->peer, item->tag,
                          item->bytes, TRACE_BYTE));
    } else if (waits) {
        bool out = item->message == MESSAGE_SENT;
        TRY(ebb__page_put(&w->text, "%d wait %d %d %d\n", rank, out ? rank : start->peer,
                          out ? start->peer : rank, start->tag));
    }
    double copy = item->message == MESSAGE_GOT && network->copied
                      ? (double)start->bytes / network->bytes_per_second
                      : 0;
    return ebb__page_put(&w->text, "%d compute %.0f\n", rank, TRACE_SPEED * (item->seconds + copy));
}

static ebb_status save(trace_writer *w, const char *name) {
    char path[1024];
    TRY(ebb__file_join(w->text.ctx, w->dir, name, path, sizeof path));
    TRY(ebb__page_save(&w->text, path));
    w->text.used = 0;
    return EBB_OK;
}

static ebb_status trace_rank(trace_writer *w, int32_t rank) {
    const forecast_list *list = &w->f->lists[rank];
    char name[32];
    (void)snprintf(name, sizeof name, "rank%d.txt", rank);
    TRY(ebb__page_put(&w->text, "%d init\n", rank));
    for (int32_t i = 0; i < list->n; i++) {
        TRY(put_item(w, rank, list, i));
    }
    TRY(ebb__page_put(&w->text, "%d finalize\n", rank));
    return save(w, name);
}

/* Every host has a way out and a way in, which meet in a switch. */
static ebb_status trace_platform(trace_writer *w) {
    const forecast_network *network = &w->f->network;
    double rate = network->copied ? TRACE_AT_ONCE : network->bytes_per_second;
    TRY(ebb__page_put(&w->text,
                      "<?xml version='1.0'?>\n"
                      "<!DOCTYPE platform SYSTEM "
                      "\"https://simgrid.org/simgrid.dtd\">\n"
                      "<platform version=\"4.1\">\n<zone id=\"all\" routing=\"Full\">\n"));
    for (int32_t r = 0; r < w->f->ranks; r++) {
        TRY(ebb__page_put(&w->text,
                          "<host id=\"host%d\" speed=\"%.0ff\"/>\n"
                          "<link id=\"out%d\" bandwidth=\"%.9gBps\" latency=\"%.9gs\"/>\n"
                          "<link id=\"in%d\" bandwidth=\"%.9gBps\" latency=\"0s\"/>\n",
                          r, TRACE_SPEED, r, rate, network->latency, r, rate));
    }
    for (int32_t a = 0; a < w->f->ranks; a++) {
        for (int32_t b = 0; b < w->f->ranks; b++) {
            if (a != b) {
                TRY(ebb__page_put(&w->text,
                                  "<route src=\"host%d\" dst=\"host%d\" symmetrical=\"NO\">"
                                  "<link_ctn id=\"out%d\"/><link_ctn id=\"in%d\"/></route>\n",
                                  a, b, a, b));
            }
        }
    }
    TRY(ebb__page_put(&w->text, "</zone>\n</platform>\n"));
    return save(w, "platform.xml");
}

static ebb_status trace_lists(trace_writer *w) {
    for (int32_t r = 0; r < w->f->ranks; r++) {
        TRY(ebb__page_put(&w->text, "host%d\n", r));
    }
    TRY(save(w, "hosts.txt"));
    for (int32_t r = 0; r < w->f->ranks; r++) {
        TRY(ebb__page_put(&w->text, "rank%d.txt\n", r));
    }
    return save(w, "traces.txt");
}

static ebb_status trace(ebb_ctx *ctx, const char *dir, const job_forecast *f) {
    trace_writer w = {.f = f, .dir = dir, .text = {.ctx = ctx}};
    ebb_status status = ebb__file_make_dir(ctx, dir);
    if (status == EBB_OK) {
        status = trace_platform(&w);
    }
    if (status == EBB_OK) {
        status = trace_lists(&w);
    }
    for (int32_t r = 0; status == EBB_OK && r < f->ranks; r++) {
        status = trace_rank(&w, r);
    }
    ebb__page_text_fini(&w.text);
    return status;
}

/* ---- the command ---- */

static ebb_status show(cli_call *call, const job_forecast *f) {
    const cli_settings *settings = &call->settings;
    TRY(settings->svg != NULL ? draw(call->ctx, settings, f) : EBB_OK);
    TRY(settings->run.trace != NULL ? trace(call->ctx, settings->run.trace, f) : EBB_OK);
    if (settings->json) {
        return ebb__cli_print_json(call->ctx, to_json(&settings->run, f));
    }
    print_text(&settings->run, f);
    return EBB_OK;
}

ebb_status ebb__cli_need_ranks(const cli_settings *settings) {
    static const char *const names[] = {"network", "trace", "stages"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (ebb__cli_given(settings, names[i])) {
            return ebb__fail(settings->ctx, EBB_USAGE,
                             "--%s is about several processes: say how many with --ranks N",
                             names[i]);
        }
    }
    return EBB_OK;
}

ebb_status ebb__cli_forecast(cli_call *call) {
    const cli_settings *settings = &call->settings;
    job_forecast forecast;
    forecast_asked asked = {.shards = ebb__cli_given(settings, "shards"),
                            .way = ebb__cli_given(settings, "stages") ||
                                   ebb__cli_given(settings, "reduce")};
    if (settings->curve || settings->program || settings->run.explain) {
        return ebb__fail(call->ctx, EBB_USAGE,
                         "--%s shows the plan of one process, --ranks several: only one at a time",
                         settings->curve     ? "curve"
                         : settings->program ? "program"
                                             : "explain");
    }
    ebb_status status = ebb__job_forecast(call->ctx, &settings->run, asked, &forecast);
    ebb__cli_progress_clear(&call->progress);
    if (status == EBB_OK) {
        status = show(call, &forecast);
    }
    ebb__job_forecast_free(&forecast);
    return status;
}
