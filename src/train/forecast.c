/* forecast.c - see forecast.h. */
#include "train/forecast.h"

#include "base/host.h"
#include "train/job_int.h"
#include "train/team.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- networks ---- */

static const forecast_network shared_memory = {
    .bytes_per_second = JOB_MEMORY_RATE, .latency = JOB_MEMORY_LATENCY, .copied = true};
static const double MOST_RATE = 1e15, MOST_LATENCY = 100; /* bits a second; seconds */

typedef struct network_unit {
    const char *name;
    double scale;
} network_unit;

/* A number and one of the units, which `end` follows; < 0: it is something else. */
static double read_amount(const char *text, const network_unit *units, size_t n, char end) {
    char *unit = NULL;
    bool starts = text[0] != '\0' && strchr("0123456789.", text[0]) != NULL;
    size_t digits = strspn(text, "0123456789.");
    double value = starts ? strtod(text, &unit) : -1;
    if (!starts || unit != text + digits) {
        return -1;
    }
    const char *stop = strchr(unit, end);
    size_t bytes = stop != NULL ? (size_t)(stop - unit) : 0;
    for (size_t i = 0; stop != NULL && i < n; i++) {
        if (strlen(units[i].name) == bytes && strncmp(units[i].name, unit, bytes) == 0) {
            return value * units[i].scale;
        }
    }
    return -1;
}

ebb_status ebb__job_network(ebb_ctx *ctx, const char *text, forecast_network *out) {
    static const network_unit rates[] = {
        {"", 1},         {"K", 1e3},      {"M", 1e6},      {"G", 1e9},     {"T", 1e12},
        {"Kbit", 1e3},   {"Mbit", 1e6},   {"Gbit", 1e9},   {"Tbit", 1e12}, {"Kbit/s", 1e3},
        {"Mbit/s", 1e6}, {"Gbit/s", 1e9}, {"Tbit/s", 1e12}};
    static const network_unit times[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
    *out = shared_memory;
    if (text == NULL) {
        return EBB_OK;
    }
    const char *comma = strchr(text, ',');
    double bits = read_amount(text, rates, sizeof rates / sizeof *rates, ',');
    double latency =
        comma == NULL ? -1 : read_amount(comma + 1, times, sizeof times / sizeof *times, '\0');
    if (!(bits > 0 && bits <= MOST_RATE && latency >= 0 && latency <= MOST_LATENCY)) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--network: '%s' is no rate and latency; write 1G,50us for 1 Gbit/s and "
                         "50 microseconds (K, M, G, T bits a second; ns, us, ms, s)",
                         text);
    }
    *out = (forecast_network){.bytes_per_second = bits / 8, .latency = latency};
    return EBB_OK;
}

/* ---- all ranks ---- */

/* All processes of the settings, with what these leave open chosen as a run would. */
static ebb_status team_make(alloc_region *region, const train_settings *settings,
                            const job_request *request, team_run *run, job_team *team,
                            job_reduce *reduce) {
    train_settings *own = &run->settings;
    *run = (team_run){.ctx = region->ctx, .settings = *settings, .request = request};
    *team = ebb__team_of(region, run);
    TRY(ebb__job_choose_stages(region->ctx, settings, request, region, &run->ways, &own->ways));
    TRY(ebb__job_choose_reduce(region->ctx, own, request, reduce));
    own->reduce = reduce->way;
    return ebb__team_plan(team);
}

static void note_way(const job_team *team, int64_t shards, double seconds, forecast_way *way) {
    *way = (forecast_way){.stages = team->stages, .shards = shards, .seconds = seconds};
    for (int32_t r = 0; r < team->n; r++) {
        uint64_t bytes = team->parts[r].planned_peak_bytes;
        way->largest_bytes = bytes > way->largest_bytes ? bytes : way->largest_bytes;
    }
}

/* ---- other ways ---- */

static ebb_status plan_alone(ebb_ctx *ctx, const train_settings *settings,
                             const job_request *request, forecast_asked asked, job_forecast *f) {
    train_settings one = *settings;
    ebb_plan *plan = NULL;
    one.ranks = 0;
    one.stages = 1;
    one.shards = asked.shards ? one.shards : 1;
    ebb_status status = ebb__job_compile(ctx, &one, request, &plan);
    f->one_fits = status == EBB_OK;
    if (plan != NULL && (status == EBB_OK || status == EBB_BUDGET)) {
        f->words_per_step = plan->words_per_step;
        f->one = (forecast_way){1, one.shards, plan->peak_bytes, plan->seconds_per_step};
        ebb__ctx_clear(ctx);
        status = EBB_OK;
    }
    ebb__plan_free(plan);
    return status;
}

/* Leaves out->stages 0 where it cannot be done: too few layers, or too little memory. */
static ebb_status try_way(ebb_ctx *ctx, const train_settings *settings, const job_request *request,
                          const forecast_network *network, forecast_way *out) {
    team_run run;
    job_team team;
    job_reduce reduce;
    alloc_region region;
    double seconds = 0;
    ebb__region_init(&region, ctx);
    ebb_status status = team_make(&region, settings, request, &run, &team, &reduce);
    if (status == EBB_OK) {
        status = ebb__team_play(&team, network, false, &seconds);
    }
    if (status == EBB_OK) {
        note_way(&team, settings->shards, seconds, out);
    }
    ebb__region_fini(&region);
    if (status != EBB_USAGE && status != EBB_BUDGET) {
        return status;
    }
    ebb__ctx_clear(ctx);
    return EBB_OK;
}

/* Stages for all ranks or, of a model with fewer layers, for as many as can be. */
static ebb_status try_stages(ebb_ctx *ctx, const train_settings *settings,
                             const job_request *request, forecast_asked asked, job_forecast *f) {
    train_settings own = *settings;
    for (own.stages = own.ranks; own.stages > 1 && f->stages.stages == 0; own.stages--) {
        if (own.ranks % own.stages == 0) {
            own.shards = asked.shards ? settings->shards : own.ranks / own.stages;
            TRY(try_way(ctx, &own, request, &f->network, &f->stages));
        }
    }
    return EBB_OK;
}

/* Several processes must be worth their trouble, or be needed. */
static void advise(job_forecast *f) {
    static const double WORTH = 1.1;
    const forecast_way *data = &f->data, *stages = &f->stages;
    bool pipeline = stages->stages > 0 && (data->stages == 0 || stages->seconds < data->seconds);
    const forecast_way *best = pipeline ? stages : data;
    bool worth = best->stages > 0 && (!f->one_fits || forecast_speedup(f, best) >= WORTH);
    f->advice = !worth ? ADVICE_NEITHER : pipeline ? ADVICE_STAGES : ADVICE_DATA;
}

/* ---- all of it ---- */

static void note_shares(job_forecast *f, double seconds, double without) {
    double waiting = 0, most = 0;
    for (int32_t r = 0; r < f->ranks; r++) {
        waiting += f->parts[r].waiting_seconds;
        most = fmax(most, f->parts[r].waiting_seconds);
    }
    f->bubble_share = seconds > 0 ? waiting / seconds / f->ranks : 0;
    f->exposed_share = seconds > 0 ? most / seconds : 0;
    f->message_share = seconds > 0 ? (seconds - without) / seconds : 0;
}

static ebb_status fill(job_team *team, int64_t shards, job_forecast *f) {
    static const forecast_network none = {.bytes_per_second = 1e30};
    double seconds = 0, without = 0;
    f->parts = team->parts;
    TRY(ebb__team_play(team, &f->network, true, &seconds));
    TRY(ebb__team_play(team, &none, false, &without));
    note_way(team, shards, seconds, &f->way);
    note_shares(f, seconds, without);
    f->lists = &team->lists[team->lead * team->n];
    return ebb__forecast_play(team->ctx, f->lists, team->n, &f->network, &f->step);
}

static ebb_status forecast_ways(ebb_ctx *ctx, const train_settings *own, const job_request *request,
                                forecast_asked asked, job_forecast *f) {
    TRY(plan_alone(ctx, own, request, asked, f));
    *(own->stages > 1 ? &f->stages : &f->data) = f->way;
    if (!asked.way && own->ranks > 1) {
        TRY(try_stages(ctx, own, request, asked, f));
    }
    advise(f);
    return EBB_OK;
}

ebb_status ebb__job_forecast(ebb_ctx *ctx, const train_settings *settings, forecast_asked asked,
                             job_forecast *out) {
    job_request request = {.train = true, .valid = kind_validates(settings)};
    team_run run;
    job_team team;
    train_settings own = *settings;
    double start = ebb__clock_seconds();
    *out = (job_forecast){.ranks = (int32_t)ebb__settings_ranks(settings)};
    ebb__region_init(&out->region, ctx);
    TRY(ebb__job_network(ctx, settings->network, &out->network));
    own.stages = own.stages > 1 ? own.stages : 1;
    own.threads = out->threads = ebb__job_threads(settings);
    TRY(ebb__job_sizes(ctx, &own, &request));
    TRY(team_make(&out->region, &own, &request, &run, &team, &out->reduce));
    TRY(fill(&team, own.shards, out));
    TRY(forecast_ways(ctx, &own, &request, asked, out));
    out->plan_seconds = ebb__clock_seconds() - start;
    return EBB_OK;
}

void ebb__job_forecast_free(job_forecast *forecast) {
    ebb__forecast_free(&forecast->step);
    ebb__region_fini(&forecast->region);
}
