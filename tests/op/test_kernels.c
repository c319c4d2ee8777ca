/* test_kernels.c - every kernel of the device against the reference, bit for bit: all samples it
 * accepts, dense and strided, in place, for teams of 1, 2, 3 and 5 (members run one after another),
 * by ranges of units where it takes them, in each of its forms, ordinary and saturating numbers;
 * guard bytes around operands, results and workspace hold. */
#include "sample.h"
#include "special.h"

#include "base/team.h"
#include "device/device.h"
#include "op/map.h"

static const int teams[] = {1, 2, 3, 5};

typedef struct kernel_run {
    const device_kernel *kernel;
    const op_case *c;
    int32_t pad;
    double magnitude;
    unsigned inplace;
    int members;
    int32_t form;
    int32_t units;  /* cut in ranges of these: 0: by members */
    int32_t shares; /* more than members: cut in these */
} kernel_run;

static void run_kernel(const kernel_run *r, op_data *data) {
    _Alignas(16) unsigned char prepared[DEVICE_PREPARED_BYTES] = {0};
    const op_case *c = r->c;
    op_views v;
    views_of(&v, c, data, r->inplace);
    v.call.members = r->members;
    v.call.form = r->form;
    size_t bytes = r->kernel->workspace == NULL
                       ? 0
                       : r->kernel->workspace(&c->graph, &c->node, r->form, r->members);
    unsigned char *block = aligned_alloc(GUARD, (2 * GUARD + bytes + GUARD - 1) / GUARD * GUARD);
    assert_non_null(block);
    memset(block, PATTERN, 2 * GUARD + bytes);
    atomic_int ended = 0;
    v.call.workspace = block + GUARD;
    v.call.ended = &ended;
    if (r->kernel->prepare != NULL) {
        ebb_status status = r->kernel->prepare(c->ctx, &v.call, prepared);
        if (status != EBB_OK) {
            fail_msg("%s: prepare: %s", r->kernel->name, ebb_last_error(c->ctx));
        }
    }
    v.call.prepared = prepared;
    for (int member = 0; member < r->members; member++) {
        int64_t lo = 0, hi = 0;
        v.call.member = v.call.worker = member;
        if (r->units == 0 && r->shares > r->members) { /* some take several, with one scratch */
            v.call.members = r->shares;
            for (int s = member; s < r->shares; s += r->members) {
                v.call.member = s;
                r->kernel->run(&v.call);
            }
            continue;
        }
        if (r->units == 0) {
            r->kernel->run(&v.call);
            continue;
        }
        /* As a fused run does: the member's units, a block at a time. */
        ebb__team_share(r->units, 8, member, r->members, &lo, &hi);
        for (int64_t u = lo; u < hi; u += 16) {
            v.call.lo = (int32_t)u;
            v.call.hi = (int32_t)(u + 16 < hi ? u + 16 : hi);
            r->kernel->run(&v.call);
        }
    }
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(block[i], PATTERN);
        assert_int_equal(block[GUARD + bytes + i], PATTERN);
    }
    free(block);
}

static void check_run(const kernel_run *r, const op_data *want, int32_t sample) {
    const op_case *c = r->c;
    op_data got = data_make(c, false, r->pad, r->magnitude, 23);
    op_data before = data_make(c, false, r->pad, r->magnitude, 23);
    run_kernel(r, &got);
    for (int32_t i = 0; i < got.n_out; i++) {
        int in = inplace_operand(c->op, r->inplace, i);
        if (!tensor_same(in < 0 ? &got.out[i] : &got.in[in], &want->out[i])) {
            fail_msg("%s: sample %d, pad %d, magnitude %g, pairs %x, members %d, form %x, "
                     "units %d: result %d differs",
                     r->kernel->name, sample, r->pad, r->magnitude, r->inplace, r->members,
                     (unsigned)r->form, r->units, i);
        }
    }
    for (int32_t i = 0; i < got.n_in; i++) {
        if (c->in[i] != IR_NONE && !is_overwritten(c->op, r->inplace, i)) {
            assert_true(tensor_same(&got.in[i], &before.in[i]));
        }
    }
    if (!data_guarded(&got)) {
        fail_msg("%s: sample %d, pad %d, members %d: wrote outside", r->kernel->name, sample,
                 r->pad, r->members);
    }
    data_free(&got);
    data_free(&before);
}

static void check_sample(const device_kernel *kernel, const op_case *c, int32_t sample,
                         double magnitude) {
    op_views v;
    op_data want = data_make(c, false, 0, magnitude, 23);
    views_of(&v, c, &want, 0);
    c->op->ref(&v.call);
    int32_t pads = c->op->layout != LAYOUT_DENSE ? 2 : 1;
    uint32_t whole = 0;
    int32_t units =
        kernel->ranges && c->op->units != NULL ? c->op->units(&c->graph, &c->node, &whole) : 0;
    for (int32_t p = 0; p < pads; p++) {
        for (unsigned inplace = 0; inplace < 1u << c->op->n_inplace; inplace++) {
            for (size_t t = 0; t < sizeof teams / sizeof *teams; t++) {
                if (!pairs_usable(c, inplace)) {
                    continue;
                }
                int32_t forms[DEVICE_MAX_FORMS] = {0};
                int32_t n_forms =
                    kernel->forms == NULL ? 1 : kernel->forms(&c->graph, &c->node, teams[t], forms);
                for (int32_t f = 0; f < n_forms; f++) {
                    kernel_run r = {kernel, c, p * 3, magnitude, inplace, teams[t], forms[f], 0, 0};
                    check_run(&r, &want, sample);
                    /* Without scratch, shares are as members are. */
                    if (kernel->shares != NULL && (kernel->workspace != NULL || t == 1)) {
                        r.shares = 3 * teams[t];
                        check_run(&r, &want, sample);
                    }
                    r.units = units;
                    if (units > 0 && (p == 0 || !op_is_map(&want.out[0].view.type))) {
                        check_run(&r, &want, sample);
                    }
                }
            }
        }
    }
    data_free(&want);
}

static void kernels_equal_reference(void **state) {
    (void)state;
    const device *dev = ebb__device_default();
    assert_true(dev->n_kernels > 0);
    for (int32_t k = 0; k < dev->n_kernels; k++) {
        const device_kernel *kernel = &dev->kernels[k];
        const op_def *op = ebb__op((int)kernel->op);
        int32_t accepted = 0;
        for (int32_t s = 0; s < op->n_samples; s++) {
            op_case c;
            case_open(&c, (int)kernel->op, &op->samples[s]);
            if (kernel->accept == NULL || kernel->accept(&c.graph, &c.node) == NULL) {
                check_sample(kernel, &c, s, 1.0);
                check_sample(kernel, &c, s, 40.0);
                accepted++;
            }
            case_close(&c);
        }
        print_message("%s: %d of %d samples\n", kernel->name, accepted, op->n_samples);
    }
}

static void check_special(const device_kernel *kernel, const op_case *c) {
    op_views v;
    op_data want = data_make(c, false, 0, 1.0, 5), got = data_make(c, false, 0, 1.0, 5);
    kernel_run r = {kernel, c, 0, 1.0, 0, 1, 0, 0, 0};
    if (make_special(kernel->op, &want) && make_special(kernel->op, &got)) {
        views_of(&v, c, &want, 0);
        c->op->ref(&v.call);
        run_kernel(&r, &got);
    }
    for (int32_t i = 0; i < got.n_out; i++) {
        if (!tensor_same(&got.out[i], &want.out[i])) {
            fail_msg("%s: special numbers differ", kernel->name);
        }
    }
    data_free(&want);
    data_free(&got);
}

static void special_numbers(void **state) {
    (void)state;
    const device *dev = ebb__device_default();
    for (int32_t k = 0; k < dev->n_kernels; k++) {
        const device_kernel *kernel = &dev->kernels[k];
        const op_def *op = ebb__op((int)kernel->op);
        for (int32_t s = 0; s < op->n_samples; s++) {
            op_case c;
            case_open(&c, (int)kernel->op, &op->samples[s]);
            if (kernel->accept(&c.graph, &c.node) == NULL) {
                check_special(kernel, &c);
            }
            case_close(&c);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_equal_reference),
        cmocka_unit_test(special_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
