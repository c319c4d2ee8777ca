/* test_device.c - every kernel of the OpenCL device against the reference, bit for bit: all samples
 * in all forms, dense and strided, in place, ordinary, saturating and special numbers; guard bytes
 * around operands, results and workspace hold, and operands stay. Only ops of sparse values have no
 * kernel. Without a driver it is skipped, loudly.
 *
 * EBB_TEST_OPS=tanh,matmul looks at these alone; EBB_TEST_DEVICE chooses another device. With
 * EBB_TEST_FEW each form of each kernel is run for one sample, for who looks at it slowly.
 */
#include "sample.h"
#include "special.h"

#include "device/device.h"

#include <stdio.h>

static ebb_ctx *dev_ctx;
static const device *dev;

/* ---- one call on the device ---- */

typedef struct device_run {
    const device_kernel *kernel;
    int32_t index; /* of the kernel */
    const op_case *c;
    int32_t pad;
    double magnitude;
    unsigned inplace;
    int32_t form;
} device_run;

static size_t up(size_t bytes) {
    return (bytes + 127) / 128 * 128;
}

/* Tensors as they stand in the host's memory, one after the other. */
typedef struct placed {
    tensor *t;
    size_t at;
} placed;

static int32_t place_all(op_data *data, size_t from, placed *out, size_t *end) {
    int32_t n = 0;
    for (int32_t i = 0; i < data->n_in + data->n_out; i++) {
        tensor *t = i < data->n_in ? &data->in[i] : &data->out[i - data->n_in];
        if (t->block != NULL) {
            out[n++] = (placed){t, from};
            from = up(from + t->bytes);
        }
    }
    *end = from;
    return n;
}

static void *moved(const placed *list, int32_t n, const void *data, char *base) {
    for (int32_t i = 0; i < n; i++) {
        const unsigned char *block = list[i].t->block, *at = data;
        if (at >= block && at < block + list[i].t->bytes) {
            return base + list[i].at + (at - block);
        }
    }
    return NULL;
}

static void expect_ok(ebb_status status, const char *what) {
    if (status != EBB_OK) {
        fail_msg("%s: %s", what, ebb_last_error(dev_ctx));
    }
}

static void run_on_device(const device_run *r, op_data *data) {
    const op_case *c = r->c;
    op_views v;
    placed list[OP_MAX_SAMPLE_IN + IR_MAX_OUT];
    views_of(&v, c, data, r->inplace);
    size_t scratch =
        r->kernel->workspace == NULL ? 0 : r->kernel->workspace(&c->graph, &c->node, r->form, 1);
    size_t head =
        up((size_t)dev->instr_bytes + (size_t)(data->n_in + data->n_out) * (size_t)dev->view_bytes);
    size_t end = 0;
    int32_t n = place_all(data, head, list, &end);
    size_t bytes = end + up(2 * GUARD + scratch);
    void *buffer = NULL;
    char *image = NULL;
    device_stream *stream = NULL;
    expect_ok(dev->buffer.create(dev, dev_ctx, bytes, &buffer), "buffer");
    expect_ok(dev->stream.create(dev, dev_ctx, 1, &stream), "stream");
    expect_ok(dev->buffer.map(dev_ctx, buffer, 0, bytes, DEVICE_WRITE, (void **)&image), "map");
    memset(image, PATTERN, bytes);
    for (int32_t i = 0; i < n; i++) {
        memcpy(image + list[i].at, list[i].t->block, list[i].t->bytes);
    }
    expect_ok(dev->buffer.unmap(dev_ctx, buffer, 0, bytes, DEVICE_WRITE, image), "unmap");
    device_instr instr = {.call = v.call, .attr = c->sample->attr, .kernel = r->index};
    op_view views[OP_MAX_SAMPLE_IN + IR_MAX_OUT];
    char *base = dev->buffer.address(buffer);
    for (int32_t i = 0; i < data->n_in + data->n_out; i++) {
        views[i] = i < data->n_in ? v.in[i] : v.out[i - data->n_in];
        views[i].data = views[i].data == NULL ? NULL : moved(list, n, views[i].data, base);
    }
    instr.call.in = views;
    instr.call.out = views + data->n_in;
    instr.call.attr = &instr.attr;
    instr.call.form = r->form;
    instr.call.workspace = scratch > 0 ? base + end + GUARD : NULL;
    instr.call.workspace_bytes = scratch;
    device_instr *one[] = {&instr};
    const device_instr *runs[] = {&instr};
    expect_ok(dev->stream.load(stream, buffer, 0, one, 1), r->kernel->name);
    expect_ok(dev->stream.run(stream, runs, 1, NULL, NULL), r->kernel->name);
    expect_ok(dev->buffer.map(dev_ctx, buffer, 0, bytes, DEVICE_READ, (void **)&image), "map");
    for (int32_t i = 0; i < n; i++) {
        memcpy(list[i].t->block, image + list[i].at, list[i].t->bytes);
    }
    for (size_t i = 0; i < GUARD; i++) {
        if ((unsigned char)image[end + i] != PATTERN ||
            (unsigned char)image[end + GUARD + scratch + i] != PATTERN) {
            fail_msg("%s: wrote outside its workspace", r->kernel->name);
        }
    }
    expect_ok(dev->buffer.unmap(dev_ctx, buffer, 0, bytes, DEVICE_READ, image), "unmap");
    dev->stream.destroy(stream);
    dev->buffer.destroy(dev_ctx, buffer, bytes);
}

/* ---- samples ---- */

static void report(const device_run *r, int32_t sample, int32_t result, const tensor *got,
                   const tensor *want) {
    for (int64_t i = 0; i < tensor_count(want); i++) {
        const void *a = tensor_at(got, i / got->cols, i % got->cols);
        const void *b = tensor_at(want, i / want->cols, i % want->cols);
        if (memcmp(a, b, want->element) != 0) {
            fail_msg("%s: sample %d, pad %d, magnitude %g, pairs %x, form %d: result %d differs, "
                     "first at element %lld of %lld: %.9g, not %.9g",
                     r->kernel->name, sample, r->pad, r->magnitude, r->inplace, r->form, result,
                     (long long)i, (long long)tensor_count(want), tensor_get(got, i),
                     tensor_get(want, i));
        }
    }
}

static void check_run(const device_run *r, const op_data *want, int32_t sample) {
    const op_case *c = r->c;
    op_data got = data_make(c, false, r->pad, r->magnitude, 23);
    op_data before = data_make(c, false, r->pad, r->magnitude, 23);
    run_on_device(r, &got);
    for (int32_t i = 0; i < got.n_out; i++) {
        int in = inplace_operand(c->op, r->inplace, i);
        const tensor *t = in < 0 ? &got.out[i] : &got.in[in];
        if (!tensor_same(t, &want->out[i])) {
            report(r, sample, i, t, &want->out[i]);
        }
    }
    for (int32_t i = 0; i < got.n_in; i++) {
        if (c->in[i] != IR_NONE && !is_overwritten(c->op, r->inplace, i) &&
            !tensor_same(&got.in[i], &before.in[i])) {
            fail_msg("%s: sample %d: operand %d was changed", r->kernel->name, sample, i);
        }
    }
    if (!data_guarded(&got)) {
        fail_msg("%s: sample %d, pad %d: wrote outside", r->kernel->name, sample, r->pad);
    }
    data_free(&got);
    data_free(&before);
}

static int32_t forms_of(const device_kernel *kernel, const op_case *c,
                        int32_t list[DEVICE_MAX_FORMS]) {
    list[0] = 0;
    return kernel->forms == NULL ? 1 : kernel->forms(&c->graph, &c->node, 1, list);
}

static bool is_few(void) {
    return getenv("EBB_TEST_FEW") != NULL;
}

/* `known` forms are left out; gives those that are known now: bit f is form f. */
static uint32_t check_sample(int32_t k, const op_case *c, int32_t sample, double magnitude,
                             uint32_t known) {
    const device_kernel *kernel = &dev->kernels[k];
    op_views v;
    op_data want = data_make(c, false, 0, magnitude, 23);
    views_of(&v, c, &want, 0);
    c->op->ref(&v.call);
    int32_t forms[DEVICE_MAX_FORMS], n_forms = forms_of(kernel, c, forms);
    int32_t most_pad = c->op->layout != LAYOUT_DENSE && !is_few() ? 3 : 0;
    unsigned pairs = is_few() ? 1 : 1u << c->op->n_inplace;
    for (int32_t pad = 0; pad <= most_pad; pad += 3) {
        for (unsigned inplace = 0; inplace < pairs; inplace++) {
            for (int32_t f = 0; f < n_forms && pairs_usable(c, inplace); f++) {
                device_run r = {kernel, k, c, pad, magnitude, inplace, forms[f]};
                if ((known >> forms[f] & 1) == 0) {
                    check_run(&r, &want, sample);
                }
            }
        }
    }
    data_free(&want);
    for (int32_t f = 0; f < n_forms; f++) {
        known |= 1u << forms[f];
    }
    return known;
}

static void check_special(int32_t k, const op_case *c) {
    op_views v;
    op_data want = data_make(c, false, 0, 1.0, 5), got = data_make(c, false, 0, 1.0, 5);
    int32_t forms[DEVICE_MAX_FORMS], n_forms = forms_of(&dev->kernels[k], c, forms);
    if (make_special(dev->kernels[k].op, &want)) {
        views_of(&v, c, &want, 0);
        c->op->ref(&v.call);
    }
    for (int32_t f = 0; f < n_forms && make_special(dev->kernels[k].op, &got); f++) {
        device_run r = {&dev->kernels[k], k, c, 0, 1.0, 0, forms[f]};
        run_on_device(&r, &got);
        for (int32_t i = 0; i < got.n_out; i++) {
            if (!tensor_same(&got.out[i], &want.out[i])) {
                report(&r, -1, i, &got.out[i], &want.out[i]);
            }
        }
    }
    data_free(&want);
    data_free(&got);
}

static bool asked_for(const char *name) {
    const char *list = getenv("EBB_TEST_OPS");
    char padded[1024], wanted[128];
    if (list == NULL) {
        return true;
    }
    (void)snprintf(padded, sizeof padded, ",%s,", list);
    (void)snprintf(wanted, sizeof wanted, ",%s,", name);
    return strstr(padded, wanted) != NULL;
}

/* How many samples it takes. */
static int32_t check_kernel(int32_t k) {
    const device_kernel *kernel = &dev->kernels[k];
    const op_def *op = ebb__op((int)kernel->op);
    int32_t accepted = 0;
    uint32_t known = 0;
    for (int32_t s = 0; s < op->n_samples; s++) {
        op_case c;
        case_open(&c, (int)kernel->op, &op->samples[s]);
        if (kernel->accept == NULL || kernel->accept(&c.graph, &c.node) == NULL) {
            known = check_sample(k, &c, s, 1.0, is_few() ? known : 0);
            if (!is_few()) {
                (void)check_sample(k, &c, s, 40.0, 0);
                check_special(k, &c);
            }
            accepted++;
        }
        case_close(&c);
    }
    return accepted;
}

static void kernels_equal_reference(void **state) {
    (void)state;
    for (int32_t k = 0; k < dev->n_kernels; k++) {
        const op_def *op = ebb__op((int)dev->kernels[k].op);
        if (asked_for(op->schema.name)) {
            int32_t accepted = check_kernel(k);
            print_message("%s: %d of %d samples\n", dev->kernels[k].name, accepted, op->n_samples);
            assert_true(accepted > 0);
        }
    }
}

/* Of values whose number only a step knows: no candidates on a device. */
static bool is_sparse(int op) {
    return op == OP_CONV_WEIGHTS_SPARSE || op == OP_SPARSE_STARTS || op == OP_SPARSE_PUSH ||
           op == OP_SPARSE_PULL || op == OP_GIVE_UP || op == OP_HEAP;
}

/* Ops that move a byte and that no kernel carries out. Messages, and what leaves the memory, are
 * the session's. */
static void ops_without_a_kernel(void **state) {
    (void)state;
    int32_t n = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        bool known = (ebb__op(op)->flags & OPF_ALIAS) != 0 ||
                     ebb__op(op)->message != MESSAGE_NONE || ebb__op(op)->transfer != TRANSFER_NONE;
        for (int32_t k = 0; k < dev->n_kernels; k++) {
            known = known || (int)dev->kernels[k].op == op;
        }
        if (!known && !is_sparse(op)) {
            print_message("no kernel: %s\n", ebb__op(op)->schema.name);
            n++;
        }
    }
    assert_int_equal(n, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_equal_reference),
        cmocka_unit_test(ops_without_a_kernel),
    };
    const char *name = getenv("EBB_TEST_DEVICE");
    device_choice choice = {name != NULL ? name : "opencl", NULL};
    if (ebb_ctx_new(&dev_ctx) != EBB_OK) {
        return 1;
    }
    if (ebb__device_open(dev_ctx, &choice, &dev) != EBB_OK) {
        print_message("SKIPPED: no device: %s\n", ebb_last_error(dev_ctx));
        ebb_ctx_free(dev_ctx);
        return 0;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ebb__device_close(dev);
    ebb_ctx_free(dev_ctx);
    return failed;
}
