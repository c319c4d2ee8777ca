/* test_power_cut.c - a run whose power is cut after any of its system calls goes on to the same
 * end, from no older a checkpoint than the newest that was promised to be safe.
 *
 * The calls of a run are recorded once, then played up to each of them into a model of a disk
 * (support/disk.h), which loses what was not synced in several ways. */
#include "train/run_help.h"

#include "pass/pass.h"
#include "support/disk.h"
#include "support/events.h"

typedef struct cut_run {
    run_room *room; /* the whole run is in `other`, what is cut in `out` */
    disk start;     /* before the first recorded call */
    call_list calls;
    int64_t steps;
    bool events;      /* event files too, in "events.d" */
    int cuts, behind; /* how often it went on from less than was there before the cut */
} cut_run;

/* Small, and planned without what takes time: this is about files. */
static run_room *small(run_room *room) {
    room->s.disabled = 1U << PASS_SIMPLIFY | 1U << PASS_CHUNK | 1U << PASS_RECOMPUTE |
                       1U << PASS_BATCH_TIME | 1U << PASS_SPARSE | 1U << PASS_CONTRACT |
                       1U << PASS_LAYOUT | 1U << PASS_FUSE | 1U << PASS_VERIFY;
    room->s.bptt = 3;
    room->s.batch = 8;
    room->s.epochs = 2;
    return room;
}

static int go(void *user) {
    job_train_result result;
    run_error error;
    return (int)run_go(user, NULL, &result, &error);
}

/* Where the run writes from here on. */
static void aim(cut_run *c, const char *dir) {
    static run_path events;
    c->room->s.out_dir = dir;
    if (c->events) {
        events = run_join(dir, "events.d");
        c->room->s.tensorboard = events.text;
    }
}

/* What a viewer shows: the last loss of each step that no later start takes back; returns how many
 * steps there are. */
enum { STEPS_MOST = 64 };
static int shown(const char *dir, float loss[STEPS_MOST]) {
    events_seen *seen = events_of(run_join(dir, "events.d").text);
    int n = 0;
    memset(loss, 0, STEPS_MOST * sizeof *loss);
    for (int i = 0; i < seen->n; i++) {
        const event_seen *e = &seen->at[i];
        assert_in_range(e->step, 0, STEPS_MOST - 1);
        for (int64_t step = e->step; e->start && step < STEPS_MOST; step++) {
            loss[step] = 0;
        }
        for (int k = 0; k < e->n; k++) {
            loss[e->step] =
                strcmp(e->scalar[k].tag, "train/loss") == 0 ? e->scalar[k].value : loss[e->step];
        }
    }
    for (int step = 0; step < STEPS_MOST; step++) {
        n += loss[step] > 0;
    }
    free(seen);
    return n;
}

static void expect_same_events(const char *a, const char *b) {
    float in_a[STEPS_MOST], in_b[STEPS_MOST];
    assert_int_equal(shown(a, in_a), shown(b, in_b));
    assert_true(shown(b, in_b) > 1);
    assert_memory_equal(in_a, in_b, sizeof in_a);
}

/* The whole run, in the other folder, recorded. */
static void record(cut_run *c) {
    run_room *room = c->room;
    disk_init(&c->start);
    if (access(room->other.text, F_OK) == 0) {
        disk_seed(&c->start, room->other.text);
    }
    aim(c, room->other.text);
    assert_int_equal(calls_record(go, room, &c->calls), EBB_OK);
    aim(c, room->out.text);
    c->steps = run_checkpoint(room->other.text);
    assert_in_range(c->calls.n, 50, 5000);
}

/* The disk after the first n calls. */
static void play(const cut_run *c, size_t n, disk *d) {
    disk_init(d);
    for (int i = 0; i < c->start.n_changes; i++) {
        const disk_change *from = &c->start.changes[i];
        int file = from->file < 0 ? -1 : disk_new_file(d);
        if (file >= 0) {
            const disk_bytes *bytes = &c->start.files[from->file].safe;
            disk_set(&d->files[file].now, bytes->data, bytes->n);
            disk_set(&d->files[file].safe, bytes->data, bytes->n);
        }
        disk_name(d, from->set, "", file)->safe = true;
    }
    for (size_t i = 0; i < n; i++) {
        disk_play(d, &c->calls.at[i]);
    }
}

/* The newest step whose manifest has its name for good; -1: none. */
static int64_t promised(const disk *d, const char *dir) {
    int64_t newest = -1;
    for (int i = 0; i < d->n_changes; i++) {
        const char *name = d->changes[i].set + strlen(dir);
        long long step;
        int end = 0;
        if (d->changes[i].safe && strncmp(d->changes[i].set, dir, strlen(dir)) == 0 &&
            sscanf(name, "/ckpt-%lld.json%n", &step, &end) == 1 && end > 0 && name[end] == '\0') {
            newest = step > newest ? step : newest;
        }
    }
    return newest;
}

static void cut_once(cut_run *c, size_t n, disk_loss names, disk_loss bytes, test_dice *dice) {
    run_room *room = c->room;
    disk d;
    job_train_result result;
    run_error error;
    run_remove(room->out.text);
    play(c, n, &d);
    disk_cut(&d, names, bytes, dice, room->other.text, room->out.text);
    /* What is cleared away may be half there, and is not asked for. */
    int64_t safe = room->s.fresh ? -1 : promised(&d, room->other.text);
    int64_t found = room->s.fresh ? -1 : run_checkpoint(room->out.text);
    disk_fini(&d);
    ebb_status status = found < safe ? EBB_INTERNAL : EBB_OK;
    (void)snprintf(error.text, sizeof error.text, "step %d was safe, %d is left", (int)safe,
                   (int)found);
    status = status == EBB_OK ? run_go(room, NULL, &result, &error) : status;
    if (status != EBB_OK) {
        fail_msg("cut after call %d of %d (losses %d, %d): %s", (int)n, (int)c->calls.n, (int)names,
                 (int)bytes, error.text);
    }
    run_expect_same_end(room->out.text, room->other.text, c->steps);
    if (c->events) {
        expect_same_events(room->out.text, room->other.text);
    }
    c->cuts++;
    c->behind += found < c->steps;
}

/* Calls that change nothing on a disk need no cut after them. */
static bool changes_disk(const call *c) {
    return c->kind != CALL_CLOSE && (c->kind != CALL_OPEN || (c->flags & O_CREAT) != 0);
}

static void cut_everywhere(cut_run *c) {
    static const disk_loss losses[][2] = {{LOSE_ALL, LOSE_ALL},
                                          {LOSE_NONE, LOSE_ALL},
                                          {LOSE_ALL, LOSE_NONE},
                                          {LOSE_LATE, LOSE_SOME},
                                          {LOSE_SOME, LOSE_SOME}};
    test_dice dice = {11};
    /* A sanitizer makes all of it many times slower. */
    size_t every = getenv("EBB_SANITIZE") != NULL ? 9 : 1, seen = 0;
    for (size_t n = 1; n <= c->calls.n; n++) {
        if (!changes_disk(&c->calls.at[n - 1]) || seen++ % every != 0) {
            continue;
        }
        /* Every other loss here, and the others after the next call. */
        for (size_t i = n % 2; i < sizeof losses / sizeof *losses; i += 2) {
            cut_once(c, n, losses[i][0], losses[i][1], &dice);
        }
    }
    print_message("%d cuts, %d before the end\n", c->cuts, c->behind);
    assert_true(c->cuts > 20 && c->behind > c->cuts / 4);
}

static void cut_fini(cut_run *c) {
    disk_fini(&c->start);
    calls_free(&c->calls);
    run_room_free(c->room);
}

static void need_calls(void) {
    if (!calls_allowed()) {
        print_message("SKIPPED: ptrace is not allowed here\n");
        skip();
    }
}

/* From nothing to the end: folder, vocabulary, token files, config, metrics, generations. */
static void a_run_from_its_start(void **state) {
    (void)state;
    need_calls();
    cut_run c = {.room = small(run_busy_room())};
    record(&c);
    cut_everywhere(&c);
    cut_fini(&c);
}

/* A stopped run that goes on: metrics are cut back, left-overs go, generations are pruned. */
static void a_run_that_goes_on(void **state) {
    (void)state;
    need_calls();
    cut_run c = {.room = small(run_busy_room())};
    run_watch watch;
    job_train_result result;
    run_error error;
    c.room->s.out_dir = c.room->other.text;
    c.room->s.log_every = 1;
    run_watch_init(&watch, 8);
    assert_int_equal(run_go(c.room, &watch, &result, &error), EBB_STOPPED);
    record(&c);
    cut_everywhere(&c);
    cut_fini(&c);
}

/* Pairs, with two vocabularies, four token files, indices that have no name, and event files. */
static void a_translation_run(void **state) {
    (void)state;
    need_calls();
    cut_run c = {.room = small(run_pairs_room(9, 3, 3, false))};
    c.room->s.shapes = 2;
    c.room->s.log_every = 1;
    c.events = true;
    assert_int_equal(mkdir(c.room->other.text, 0777), 0); /* event files need a folder to be in */
    record(&c);
    cut_everywhere(&c);
    cut_fini(&c);
}

/* A finished run is cleared away for a new one of the same command. */
static void a_fresh_start_over_an_old_run(void **state) {
    (void)state;
    need_calls();
    cut_run c = {.room = small(run_busy_room())};
    c.room->s.epochs = 1;
    c.room->s.out_dir = c.room->other.text;
    (void)run_ok(c.room);
    c.room->s.fresh = true;
    record(&c);
    cut_everywhere(&c);
    cut_fini(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_from_its_start),
        cmocka_unit_test(a_run_that_goes_on),
        cmocka_unit_test(a_translation_run),
        cmocka_unit_test(a_fresh_start_over_an_old_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
