/* test_ranges.c - one range of units of a node, any begin and end: the range has the bits of the
 * reference, no other unit of a result changes, also where results lie in operands; and rows wide
 * enough to be cut for members. For kernels without workspace and preparation: pointwise ones,
 * cells, attention, moves. */
#include "sample.h"

#include "device/device.h"
#include "op/map.h"

enum { RANGES = 24 };

/* Of element (row, column) of a result: by columns; or batch rows, which are the columns of scores
 * and weights [S,B] and the rows, block after block, of everything else. (No sample's stack is as
 * wide as its batch.) Of maps, rows of pixels. */
static int64_t unit_of(const op_def *op, const tensor *t, int64_t row, int64_t column,
                       int32_t units) {
    int64_t cols = ir_cols(&t->view.type);
    if (op_is_map(&t->view.type)) {
        op_map m = op_map_of(&t->view.type);
        return (row * t->cols + column) / op_map_row(&m);
    }
    if (op->unit_rows && cols != units) {
        return row % units;
    }
    return cols % units == 0 ? column % units : column;
}

/* Units of [lo, hi) equal those of want, all others those of before. */
static bool only_range(const op_def *op, const tensor *got, const tensor *want,
                       const tensor *before, int32_t units, int32_t lo, int32_t hi) {
    int64_t cols = got->cols;
    for (int64_t i = 0; i < tensor_count(got); i++) {
        int64_t r = i / cols, c = i % cols, u = unit_of(op, got, r, c, units);
        const tensor *as = u >= lo && u < hi ? want : before;
        float a, b;
        memcpy(&a, tensor_at(got, r, c), sizeof a);
        memcpy(&b, tensor_at(as, r, c), sizeof b);
        if (memcmp(&a, &b, sizeof a) != 0 && !(isnan(a) && isnan(b))) {
            return false;
        }
    }
    return true;
}

static void check_range(const device_kernel *kernel, const op_case *c, const op_data *want,
                        unsigned inplace, int32_t units, int32_t lo, int32_t hi) {
    bool gaps = c->op->layout != LAYOUT_DENSE && !op_is_map(&want->out[0].view.type);
    int32_t pad = gaps ? 5 : 0;
    op_data got = data_make(c, false, pad, 1.0, 23), before = data_make(c, false, pad, 1.0, 23);
    op_views v;
    views_of(&v, c, &got, inplace);
    v.call.lo = lo;
    v.call.hi = hi;
    v.call.member = 1; /* a range is all of its own, whoever asks */
    v.call.members = 3;
    kernel->run(&v.call);
    for (int32_t i = 0; i < got.n_out; i++) {
        int in = inplace_operand(c->op, inplace, i);
        const tensor *result = in < 0 ? &got.out[i] : &got.in[in];
        const tensor *old = in < 0 ? &before.out[i] : &before.in[in];
        if (!only_range(c->op, result, &want->out[i], old, units, lo, hi)) {
            fail_msg("%s: units %d to %d of %d, pairs %x: result %d", kernel->name, lo, hi, units,
                     inplace, i);
        }
    }
    assert_true(data_guarded(&got));
    data_free(&got);
    data_free(&before);
}

static void check_case(const device_kernel *kernel, const op_case *c, draw *d) {
    uint32_t whole = 0;
    int32_t units = c->op->units(&c->graph, &c->node, &whole);
    if (c->op->unit_rows && units == 0) { /* a stack of no blocks */
        return;
    }
    assert_true(units > 0);
    op_data want = data_make(c, false, 0, 1.0, 23);
    op_views v;
    views_of(&v, c, &want, 0);
    c->op->ref(&v.call);
    for (unsigned inplace = 0; inplace < 1u << c->op->n_inplace; inplace++) {
        for (int i = 0; i < RANGES && pairs_usable(c, inplace); i++) {
            int32_t lo = i == 0 ? 0 : (int32_t)(draw_bits(d) % (uint64_t)units);
            int32_t width = 1 + (int32_t)(draw_bits(d) % (uint64_t)(units - lo));
            /* Mostly narrow ones, as a fused run has them; the first is all. */
            width = i > 0 && i % 4 != 0 && width > 33 ? 33 - i : width;
            check_range(kernel, c, &want, inplace, units, lo, i == 0 ? units : lo + width);
        }
    }
    data_free(&want);
}

static bool takes_any_range(const device_kernel *kernel) {
    return kernel->ranges && ebb__op((int)kernel->op)->units != NULL && kernel->prepare == NULL &&
           kernel->workspace == NULL;
}

static void ranges_alone(void **state) {
    (void)state;
    const device *dev = ebb__device_default();
    draw d = {11};
    int checked = 0;
    for (int32_t k = 0; k < dev->n_kernels; k++) {
        const device_kernel *kernel = &dev->kernels[k];
        const op_def *op = ebb__op((int)kernel->op);
        for (int32_t s = 0; takes_any_range(kernel) && s < op->n_samples; s++) {
            op_case c;
            case_open(&c, (int)kernel->op, &op->samples[s]);
            if (kernel->accept(&c.graph, &c.node) == NULL) {
                check_case(kernel, &c, &d);
                checked++;
            }
            case_close(&c);
        }
    }
    assert_true(checked > 0);
}

/* The sample with rows of about 1100 units instead of its own; a member's share is cut from such.
 */
static op_sample widened(const op_sample *sample, int32_t units) {
    op_sample wide = *sample;
    for (int32_t i = 0; i < wide.n_in; i++) {
        int32_t *cols = &wide.in[i].dim[wide.in[i].rank - 1];
        if (wide.in[i].dtype == IR_F32 && *cols % units == 0) {
            *cols = *cols / units * 1111;
        }
    }
    return wide;
}

static void wide_shares(void **state) {
    (void)state;
    const device *dev = ebb__device_default();
    for (int32_t k = 0; k < dev->n_kernels; k++) {
        const device_kernel *kernel = &dev->kernels[k];
        const op_def *op = ebb__op((int)kernel->op);
        bool rows = op->unit_rows || op_is_map(&op->samples[2].in[0]);
        if (!takes_any_range(kernel) || rows) { /* those have no columns to widen */
            continue;
        }
        const op_sample *narrow = &op->samples[2]; /* several rows, of one axis or more */
        op_case c;
        case_open(&c, (int)kernel->op, narrow);
        uint32_t whole = 0;
        const op_sample wide = widened(narrow, op->units(&c.graph, &c.node, &whole));
        case_close(&c);
        case_open(&c, (int)kernel->op, &wide);
        for (int members = 1; members <= 7 && kernel->accept(&c.graph, &c.node) == NULL;
             members++) {
            for (int32_t pad = 0; pad <= 3; pad += 3) {
                op_data want = data_make(&c, false, pad, 1.0, 5);
                op_data got = data_make(&c, false, pad, 1.0, 5);
                op_views v;
                views_of(&v, &c, &want, 0);
                op->ref(&v.call);
                views_of(&v, &c, &got, 0);
                v.call.members = members;
                for (v.call.member = 0; v.call.member < members; v.call.member++) {
                    kernel->run(&v.call);
                }
                for (int32_t i = 0; i < got.n_out; i++) {
                    if (!tensor_same(&got.out[i], &want.out[i])) {
                        fail_msg("%s: %d members: result %d", kernel->name, members, i);
                    }
                }
                assert_true(data_guarded(&got));
                data_free(&want);
                data_free(&got);
            }
        }
        case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_alone),
        cmocka_unit_test(wide_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
