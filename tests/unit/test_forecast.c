/* test_forecast.c - steps of several ranks played: hand-made lists whose end is known, messages
 * that share a port, and lists that cannot end; networks as people write them.
 */
#include "support/graphs.h"
#include "train/forecast.h"

#include <math.h>
#include <string.h>

enum { MOST_ITEMS = 64, MOST_RANKS = 4 };

typedef struct script {
    forecast_item items[MOST_RANKS][MOST_ITEMS];
    forecast_list lists[MOST_RANKS];
    ebb_ctx *ctx;
    forecast_step step;
} script;

/* A byte a millisecond, and a second for each message. */
static const forecast_network slow = {.bytes_per_second = 1000, .latency = 1};
static const forecast_network shared = {.bytes_per_second = 1000, .latency = 1, .copied = true};

static void assert_near(double got, double expected) {
    if (!(fabs(got - expected) <= 1e-9)) {
        fail_msg("%.12g, not %.12g", got, expected);
    }
}

static int32_t add(script *s, int32_t rank, forecast_item item) {
    forecast_list *list = &s->lists[rank];
    list->items = s->items[rank];
    assert_true(list->n < MOST_ITEMS);
    list->items[list->n] = item;
    return list->n++;
}

static void work(script *s, int32_t rank, ir_phase phase, double seconds) {
    add(s, rank, (forecast_item){.phase = phase, .seconds = seconds});
}

static int32_t post(script *s, int32_t rank, op_message what, int32_t peer, int32_t tag,
                    uint64_t bytes) {
    return add(
        s, rank,
        (forecast_item){.message = what, .peer = peer, .tag = tag, .bytes = bytes, .started = -1});
}

static void wait_for(script *s, int32_t rank, op_message what, int32_t started) {
    add(s, rank, (forecast_item){.message = what, .started = started});
}

static ebb_status play_lists(script *s, int32_t n, const forecast_network *network) {
    if (s->ctx == NULL) {
        assert_int_equal(ebb_ctx_new(&s->ctx), EBB_OK);
    }
    ebb__forecast_free(&s->step);
    return ebb__forecast_play(s->ctx, s->lists, n, network, &s->step);
}

/* What every step must obey: spans follow each other from 0 to its end, and sum up. */
static void check_spans(const forecast_step *step) {
    for (int32_t r = 0; r < step->n_ranks; r++) {
        const forecast_rank *rank = &step->ranks[r];
        double at = 0, sum[FORECAST_STATES] = {0}, all = 0;
        for (int32_t i = 0; i < rank->n_spans; i++) {
            const forecast_span *span = &rank->spans[i];
            assert_near(span->begin, at);
            assert_true(span->end >= span->begin && span->state < FORECAST_STATES);
            sum[span->state] += span->end - span->begin;
            at = span->end;
        }
        assert_near(at, step->seconds);
        for (int k = 0; k < FORECAST_STATES; k++) {
            assert_near(sum[k], rank->seconds[k]);
            all += rank->seconds[k];
        }
        assert_near(all, step->seconds);
    }
}

static void expect(script *s, int32_t n, const forecast_network *network, double seconds) {
    ebb_status status = play_lists(s, n, network);
    if (status != EBB_OK) {
        fail_msg("%s", ebb_last_error(s->ctx));
    }
    assert_near(s->step.seconds, seconds);
    check_spans(&s->step);
}

static void done(script *s) {
    ebb__forecast_free(&s->step);
    ebb_ctx_free(s->ctx);
}

/* Rank 0 works 3 s, sends 2000 bytes, works 4 s; rank 1 works 1 s, waits for them, works 5 s. */
static void one_message(script *s) {
    *s = (script){.ctx = NULL};
    work(s, 0, IR_FORWARD, 3);
    int32_t sent = post(s, 0, MESSAGE_SEND, 1, 7, 2000);
    work(s, 0, IR_BACKWARD, 4);
    wait_for(s, 0, MESSAGE_SENT, sent);
    int32_t got = post(s, 1, MESSAGE_RECV, 0, 7, 2000);
    work(s, 1, IR_FORWARD, 1);
    wait_for(s, 1, MESSAGE_GOT, got);
    work(s, 1, IR_BACKWARD, 5);
}

static void test_one_message(void **state) {
    (void)state;
    script s;
    one_message(&s);
    expect(&s, 2, &slow, 3 + (1 + 2) + 5);
    const forecast_rank *ranks = s.step.ranks;
    assert_near(ranks[0].seconds[FORECAST_WAITING], 4);
    assert_near(ranks[1].seconds[FORECAST_WAITING], 5);
    assert_near(forecast_busy(&ranks[0]), 7);
    assert_near(forecast_busy(&ranks[1]), 6);
    assert_true(ranks[0].messages == 1 && ranks[0].sent_bytes == 2000);
    assert_true(ranks[1].messages == 0 && ranks[1].sent_bytes == 0);
    done(&s);
}

/* The receiver's processor copies, and is not waiting meanwhile. */
static void test_shared_memory(void **state) {
    (void)state;
    script s;
    one_message(&s);
    expect(&s, 2, &shared, 3 + (1 + 2) + 5);
    assert_near(s.step.ranks[1].seconds[FORECAST_COPYING], 3);
    assert_near(s.step.ranks[1].seconds[FORECAST_WAITING], 2);
    done(&s);
}

/* A message hides behind work on a network, and does not in shared memory. */
static void test_hidden(void **state) {
    (void)state;
    script s = {.ctx = NULL};
    int32_t sent = post(&s, 0, MESSAGE_SEND, 1, 0, 2000);
    work(&s, 0, IR_BACKWARD, 10);
    wait_for(&s, 0, MESSAGE_SENT, sent);
    int32_t got = post(&s, 1, MESSAGE_RECV, 0, 0, 2000);
    work(&s, 1, IR_BACKWARD, 10);
    wait_for(&s, 1, MESSAGE_GOT, got);
    expect(&s, 2, &slow, 10);
    expect(&s, 2, &shared, 13);
    done(&s);
}

/* It cannot start before its receive is posted, although it was sent long before. */
static void test_rendezvous(void **state) {
    (void)state;
    script s = {.ctx = NULL};
    wait_for(&s, 0, MESSAGE_SENT, post(&s, 0, MESSAGE_SEND, 1, 0, 2000));
    work(&s, 1, IR_FORWARD, 6);
    wait_for(&s, 1, MESSAGE_GOT, post(&s, 1, MESSAGE_RECV, 0, 0, 2000));
    expect(&s, 2, &slow, 6 + 3);
    assert_near(s.step.ranks[0].seconds[FORECAST_WAITING], 9);
    done(&s);
}

/* Two from one rank to another share the way: the first takes as long as twice its bytes alone, and
 * the second has the way for itself from then on. */
static void test_two_at_once(void **state) {
    (void)state;
    script s = {.ctx = NULL};
    int32_t a = post(&s, 0, MESSAGE_SEND, 1, 0, 2000), b = post(&s, 0, MESSAGE_SEND, 1, 1, 4000);
    wait_for(&s, 0, MESSAGE_SENT, a);
    wait_for(&s, 0, MESSAGE_SENT, b);
    int32_t c = post(&s, 1, MESSAGE_RECV, 0, 0, 2000), d = post(&s, 1, MESSAGE_RECV, 0, 1, 4000);
    wait_for(&s, 1, MESSAGE_GOT, c);
    work(&s, 1, IR_FORWARD, 1);
    wait_for(&s, 1, MESSAGE_GOT, d);
    expect(&s, 2, &slow, 1 + 2 + 4);
    const forecast_rank *rank = &s.step.ranks[1];
    assert_int_equal(rank->spans[0].state, FORECAST_WAITING);
    assert_near(rank->spans[0].end, 1 + 2 * 2);
    done(&s);
}

/* Three ranks send to the last, whose way in they share: a third of the rate each. The first sends
 * elsewhere too, and what its way out has left, two thirds, is for that. */
static void test_shared_ports(void **state) {
    (void)state;
    script s = {.ctx = NULL};
    int32_t a = post(&s, 0, MESSAGE_SEND, 3, 0, 1000), b = post(&s, 0, MESSAGE_SEND, 1, 0, 2000);
    int32_t started[3];
    wait_for(&s, 0, MESSAGE_SENT, a);
    wait_for(&s, 0, MESSAGE_SENT, b);
    a = post(&s, 1, MESSAGE_RECV, 0, 0, 2000);
    wait_for(&s, 1, MESSAGE_SENT, post(&s, 1, MESSAGE_SEND, 3, 0, 1000));
    wait_for(&s, 1, MESSAGE_GOT, a);
    wait_for(&s, 2, MESSAGE_SENT, post(&s, 2, MESSAGE_SEND, 3, 0, 2000));
    for (int32_t r = 0; r < 3; r++) {
        started[r] = post(&s, 3, MESSAGE_RECV, r, 0, r == 2 ? 2000 : 1000);
    }
    for (int32_t r = 0; r < 3; r++) {
        wait_for(&s, 3, MESSAGE_GOT, started[r]);
    }
    /* Until 4, when the last has 1000 bytes left for itself. */
    expect(&s, 4, &slow, 1 + 3 + 1);
    done(&s);
}

/* Three stages, `parts` parts of a batch, 1 s forward and 2 s backward each, messages for nothing:
 * the first part fills the pipeline, and backward empties it. The usual bubble. */
static void pipeline(script *s, int32_t parts) {
    *s = (script){.ctx = NULL};
    for (int32_t r = 0; r < 3; r++) {
        for (int32_t i = 0; i < parts; i++) {
            if (r > 0) {
                wait_for(s, r, MESSAGE_GOT, post(s, r, MESSAGE_RECV, r - 1, i, 4));
            }
            work(s, r, IR_FORWARD, 1);
            if (r < 2) {
                wait_for(s, r, MESSAGE_SENT, post(s, r, MESSAGE_SEND, r + 1, i, 4));
            }
        }
        for (int32_t i = 0; i < parts; i++) {
            if (r < 2) {
                wait_for(s, r, MESSAGE_GOT, post(s, r, MESSAGE_RECV, r + 1, 100 + i, 4));
            }
            work(s, r, IR_BACKWARD, 2);
            if (r > 0) {
                wait_for(s, r, MESSAGE_SENT, post(s, r, MESSAGE_SEND, r - 1, 100 + i, 4));
            }
        }
    }
}

static void test_bubble(void **state) {
    (void)state;
    const forecast_network at_once = {.bytes_per_second = 1e30};
    for (int32_t parts = 1; parts <= 5; parts++) {
        script s;
        pipeline(&s, parts);
        expect(&s, 3, &at_once, 3.0 * (parts + 2));
        for (int32_t r = 0; r < 3; r++) {
            const forecast_rank *rank = &s.step.ranks[r];
            assert_near(rank->seconds[IR_FORWARD], parts);
            assert_near(rank->seconds[IR_BACKWARD], 2.0 * parts);
            assert_near(rank->seconds[FORECAST_WAITING] / s.step.seconds, 2.0 / (parts + 2));
        }
        done(&s);
    }
}

static void refused(script *s, int32_t n, const char *why) {
    assert_int_equal(play_lists(s, n, &slow), EBB_INTERNAL);
    assert_non_null(strstr(ebb_last_error(s->ctx), why));
    done(s);
}

static void test_no_end(void **state) {
    (void)state;
    script s = {.ctx = NULL}; /* both wait before they send */
    wait_for(&s, 0, MESSAGE_GOT, post(&s, 0, MESSAGE_RECV, 1, 5, 8));
    wait_for(&s, 0, MESSAGE_SENT, post(&s, 0, MESSAGE_SEND, 1, 6, 8));
    wait_for(&s, 1, MESSAGE_GOT, post(&s, 1, MESSAGE_RECV, 0, 6, 8));
    wait_for(&s, 1, MESSAGE_SENT, post(&s, 1, MESSAGE_SEND, 0, 5, 8));
    refused(&s, 2, "rank 0 for message 5 from rank 1");
    s = (script){.ctx = NULL};
    wait_for(&s, 0, MESSAGE_SENT, post(&s, 0, MESSAGE_SEND, 1, 6, 8));
    work(&s, 1, IR_FORWARD, 1);
    refused(&s, 2, "rank 0 sends message 6 to rank 1, which does not expect it");
    s = (script){.ctx = NULL};
    work(&s, 0, IR_FORWARD, 1);
    wait_for(&s, 1, MESSAGE_GOT, post(&s, 1, MESSAGE_RECV, 0, 6, 8));
    refused(&s, 2, "rank 0 never sends message 6, which rank 1 expects");
    one_message(&s);
    s.items[1][0].bytes = 1999;
    refused(&s, 2, "message 7 from rank 0 has 2000 bytes, rank 1 expects 1999");
    one_message(&s);
    s.items[1][0].peer = 1;
    refused(&s, 2, "rank 1 talks to rank 1");
}

static void test_networks(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double rate, latency;
    } good[] = {{"1G,50us", 1.25e8, 50e-6},
                {"100M,0.5ms", 1.25e7, 5e-4},
                {"2.5Gbit/s,0s", 3.125e8, 0},
                {"8000,3ns", 1000, 3e-9}};
    static const char *const bad[] = {"",         "1G",       ",50us",      "1G,",     "1G,50",
                                      "1X,50us",  "0G,50us",  "-1G,50us",   "1G,-1us", "1G,50us,",
                                      "nanG,1us", "1G,50 us", "1e400G,1us", " 1G,1us", "1G,1us "};
    ebb_ctx *ctx = NULL;
    forecast_network network;
    assert_int_equal(ebb_ctx_new(&ctx), EBB_OK);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(ebb__job_network(ctx, good[i].text, &network), EBB_OK);
        assert_near(network.bytes_per_second / good[i].rate, 1);
        assert_true(fabs(network.latency - good[i].latency) < 1e-15);
        assert_false(network.copied);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ebb__job_network(ctx, bad[i], &network), EBB_USAGE);
        assert_non_null(strstr(ebb_last_error(ctx), "1G,50us"));
        ebb__ctx_clear(ctx);
    }
    assert_int_equal(ebb__job_network(ctx, NULL, &network), EBB_OK);
    assert_true(network.copied);
    ebb_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_message), cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_hidden),      cmocka_unit_test(test_rendezvous),
        cmocka_unit_test(test_two_at_once), cmocka_unit_test(test_shared_ports),
        cmocka_unit_test(test_bubble),      cmocka_unit_test(test_no_end),
        cmocka_unit_test(test_networks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
