/* bench.c - `ebb bench`: steps on random tokens, timed; bytes planned and really used; with
 * --profile, where the time goes. */
#include "cli/command.h"

#include <inttypes.h>

enum { BENCH_STEPS = 10, BENCH_MOST_STEPS = 1000000 };

static json_t *rank_json(const job_rank *k) {
    return json_pack("{s:i, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "rank",
                     k->rank, "host", k->host, "stage", k->stage, "planned_peak_bytes",
                     ebb__cli_json_bytes(k->planned_peak_bytes), "measured_peak_bytes",
                     ebb__cli_json_bytes(k->measured_peak_bytes), "vm_hwm_bytes",
                     ebb__cli_json_bytes(k->vm_hwm_bytes), "allocations_after_first_step",
                     ebb__cli_json_bytes(k->allocations_after_first_step), "sent_bytes",
                     ebb__cli_json_real(k->sent_bytes), "messages", ebb__cli_json_real(k->messages),
                     "busy_seconds", ebb__cli_json_real(k->busy_seconds), "waiting_seconds",
                     ebb__cli_json_real(k->waiting_seconds), "cpu_seconds",
                     ebb__cli_json_real(k->cpu_seconds));
}

/* The processes that mpirun started, and the share of a step that they spend on waiting: the one
 * that waits most, and in the mean; false: no memory. */
static bool add_ranks(json_t *to, const job_bench_result *r) {
    json_t *list = json_array();
    double most = 0, all = 0, clock = 0;
    bool done = list != NULL && json_object_set_new(to, "ranks", list) == 0;
    for (int i = 0; done && i < r->n_ranks; i++) {
        const job_rank *k = &r->ranks[i];
        double share = k->waiting_seconds / (k->busy_seconds + k->waiting_seconds);
        most = share > most ? share : most;
        all += share;
        clock = k->virtual_seconds > clock ? k->virtual_seconds : clock;
        done = json_array_append_new(list, rank_json(k)) == 0;
    }
    done = done && json_object_set_new(to, "reduce", json_string(ebb__job_reduces[r->reduce])) == 0;
    return done && json_object_set_new(to, "exposed_share", ebb__cli_json_real(most)) == 0 &&
           json_object_set_new(to, "bubble_share", ebb__cli_json_real(all / (double)r->n_ranks)) ==
               0 &&
           json_object_set_new(to, "virtual_seconds_per_step",
                               clock > 0 ? ebb__cli_json_real(clock) : json_null()) == 0;
}

static bool add_device(json_t *to, const job_bench_result *r) {
    json_t *own = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "device_bytes", ebb__cli_json_bytes(r->device_bytes),
        "device_bytes_allocated", ebb__cli_json_bytes(r->device_bytes_allocated), "host_bytes",
        ebb__cli_json_bytes(r->host_bytes), "launches", ebb__cli_json_real(r->launches), "copies",
        ebb__cli_json_real(r->copies), "waits", ebb__cli_json_real(r->waits), "host_syncs",
        ebb__cli_json_real(r->host_syncs));
    bool done = own != NULL && json_object_update(to, own) == 0;
    json_decref(own);
    return done;
}

static bool add_offloaded(json_t *to, const job_bench_result *r) {
    json_t *own =
        json_pack("{s:o, s:o, s:o}", "offloaded_bytes", ebb__cli_json_bytes(r->offloaded_bytes),
                  "offloaded_bytes_used", ebb__cli_json_bytes(r->offloaded_bytes_used),
                  "moved_bytes_per_step", ebb__cli_json_real(r->moved_bytes));
    bool done = own != NULL && json_object_update(to, own) == 0;
    json_decref(own);
    return done;
}

static json_t *bench_json(const job_bench_result *r, const train_settings *s) {
    char rate[32];
    (void)snprintf(rate, sizeof rate, "%s_per_second", s->kind->unit);
    json_t *object = json_pack(
        "{s:i, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, "
        "s:o}",
        "schema", 1, "batch", (json_int_t)s->batch, "stash", ebb__settings_stashes[s->stash], rate,
        ebb__cli_json_real(r->words_per_second), "seconds_per_step",
        ebb__cli_json_real(r->seconds_per_step), "cpu_seconds", ebb__cli_json_real(r->cpu_seconds),
        "joules", r->joules < 0 ? json_null() : ebb__cli_json_real(r->joules), "planned_peak_bytes",
        ebb__cli_json_bytes(r->planned_peak_bytes), "measured_peak_bytes",
        ebb__cli_json_bytes(r->measured_peak_bytes), "vm_hwm_bytes",
        ebb__cli_json_bytes(r->vm_hwm_bytes), "loss", ebb__cli_json_real(r->loss), "weights_hash",
        ebb__cli_json_hash(r->weights_hash), "allocations_after_first_step",
        ebb__cli_json_bytes(r->allocations_after_first_step), "threads", r->threads, "plan_hash",
        ebb__cli_json_hash(r->plan_hash), "sparse_reserved_bytes",
        ebb__cli_json_bytes(r->sparse_reserved_bytes), "sparse_used_bytes",
        ebb__cli_json_bytes(r->sparse_used_bytes), "fallback_steps",
        ebb__cli_json_bytes(r->fallback_steps));
    bool done = object != NULL &&
                ebb__cli_add_forms(object, s->kind, r->forms, r->n_forms, r->chunk_images);
    done = done && (r->n_ranks == 0 || add_ranks(object, r));
    done = done && (r->device_bytes == 0 || add_device(object, r));
    done = done && (r->offloaded_bytes == 0 || add_offloaded(object, r));
    if (done && r->profile != NULL) {
        done = json_object_set_new(object, "profile", ebb__cli_profile_json(r->profile)) == 0;
    }
    if (!done) {
        json_decref(object);
    }
    return done ? object : NULL;
}

static void print_ranks(const job_bench_result *r) {
    double clock = 0;
    for (int i = 0; i < r->n_ranks; i++) {
        const job_rank *k = &r->ranks[i];
        printf("rank %-3d              %" PRIu64 " bytes planned, %" PRIu64
               " used; sends %.0f bytes in %.0f messages a step, waits %.1f%% of it (%s)\n",
               k->rank, k->planned_peak_bytes, k->measured_peak_bytes, k->sent_bytes, k->messages,
               100 * k->waiting_seconds / (k->busy_seconds + k->waiting_seconds), k->host);
        clock = k->virtual_seconds > clock ? k->virtual_seconds : clock;
    }
    if (r->n_ranks > 1) {
        printf("reduce                %s\n", ebb__job_reduces[r->reduce]);
    }
    if (clock > 0) {
        printf("virtual seconds       %.6f a step, if every process had a core of its own\n",
               clock);
    }
}

static void print_bench(const job_bench_result *r, const train_settings *s) {
    char rate[32];
    (void)snprintf(rate, sizeof rate, "%s per second", s->kind->unit);
    printf("batch                 %" PRId64 "\n"
           "%-21s %.*f\n"
           "seconds per step      %.6f (median)\n"
           "processor seconds     %.6f a step\n"
           "planned peak bytes    %" PRIu64 " (%s)\n"
           "measured peak bytes   %" PRIu64 "\n"
           "process peak bytes    %" PRIu64 " (%s)\n"
           "loss of the last step %.6f\n"
           "weights hash          %016" PRIx64 "\n"
           "allocations in steps  %" PRIu64 "\n"
           "threads               %d\n"
           "plan hash             %016" PRIx64 "\n",
           s->batch, rate, r->words_per_second < 1000 ? 1 : 0, r->words_per_second,
           r->seconds_per_step, r->cpu_seconds, r->planned_peak_bytes,
           ebb__unit_bytes(r->planned_peak_bytes).text, r->measured_peak_bytes, r->vm_hwm_bytes,
           ebb__unit_bytes(r->vm_hwm_bytes).text, r->loss, r->weights_hash,
           r->allocations_after_first_step, r->threads, r->plan_hash);
    if (r->sparse_reserved_bytes > 0) {
        printf("sparse bytes          %" PRIu64 " of %" PRIu64 " used by the last step\n"
               "fallback steps        %" PRIu64 "\n",
               r->sparse_used_bytes, r->sparse_reserved_bytes, r->fallback_steps);
    }
    if (r->device_bytes > 0) {
        printf("device bytes          %" PRIu64 " planned, %" PRIu64 " allocated; host %" PRIu64
               "\n"
               "of the device         %.6g launches, %.6g copies, %.6g waits, %.6g of them inside "
               "a step\n",
               r->device_bytes, r->device_bytes_allocated, r->host_bytes, r->launches, r->copies,
               r->waits, r->host_syncs);
    }
    if (r->offloaded_bytes > 0) {
        printf("offloaded bytes       %" PRIu64 " planned, %" PRIu64 " used; %.6g moved a step\n",
               r->offloaded_bytes, r->offloaded_bytes_used, r->moved_bytes);
    }
    if (r->joules >= 0) {
        printf("joules                %.3f a step\n", r->joules);
    }
    print_ranks(r);
}

ebb_status ebb__cli_bench(cli_call *call) {
    cli_settings *settings = &call->settings;
    job_bench_result result = {0};
    TRY(ebb__cli_greet_ranks(call, FOR_BENCH));
    TRY(ebb__cli_resolve(settings));
    int64_t steps = settings->run.steps != 0 ? settings->run.steps : BENCH_STEPS;
    if (steps > BENCH_MOST_STEPS) {
        return ebb__fail(call->ctx, EBB_USAGE,
                         "--steps: %" PRId64 " is out of range: bench times at most %d", steps,
                         BENCH_MOST_STEPS);
    }
    if (settings->run.vocab == 0 && ebb__cli_find(settings->run.kind, "vocab") != NULL) {
        return ebb__fail(call->ctx, EBB_USAGE,
                         "--vocab all: bench has no text, so say how many: --vocab N");
    }
    TRY(ebb__cli_check_network(call));
    TRY(ebb__cli_fit(call, NULL));
    TRY(ebb__job_bench(call->ctx, &settings->run, steps, &result));
    ebb_status status = EBB_OK;
    if (ebb__cli_is_follower(call)) {
        /* The first process speaks for all. */
    } else if (settings->json) {
        status = ebb__cli_print_json(call->ctx, bench_json(&result, &settings->run));
    } else {
        print_bench(&result, &settings->run);
        if (result.profile != NULL) {
            ebb__cli_print_profile(stdout, result.profile, result.threads);
        }
    }
    ebb__profile_free(result.profile);
    ebb__free(call->ctx, result.ranks);
    return status;
}
