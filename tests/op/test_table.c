/* test_table.c - walks the op table: no hole, every column filled or left out on purpose. */
#include "sample.h"

static void table_has_no_hole(void **state) {
    (void)state;
    for (int code = 0; code < OP_COUNT; code++) {
        const op_def *op = ebb__op(code);
        assert_non_null(op);
        assert_non_null(op->schema.name);
        for (int other = 0; other < code; other++) {
            assert_string_not_equal(ebb__op(other)->schema.name, op->schema.name);
        }
        assert_non_null(op->infer);
        assert_in_range(op->work.of, 0, op->n_in);
        assert_non_null(op->ref);
        assert_non_null(op->ref64);
        assert_in_range(op->n_out, 1, IR_MAX_OUT);
        assert_true((op->grad == NULL) == ((op->flags & OPF_NOGRAD) != 0));
        assert_true(op->n_in == 32 || op->optional >> op->n_in == 0);
        assert_in_range(op->first_row_attr, 0, IR_MAX_INTS);
        assert_true(op->first_row_attr == 0 || op->schema.ints[op->first_row_attr - 1] != NULL);
        assert_in_range(op->lanes_attr, 0, IR_MAX_INTS);
        assert_true(op->lanes_attr == 0 || op->schema.ints[op->lanes_attr - 1] != NULL);
    }
}

static void names_have_no_gap(void **state) {
    (void)state;
    for (int code = 0; code < OP_COUNT; code++) {
        const ir_schema *schema = &ebb__op(code)->schema;
        for (int i = 1; i < IR_MAX_INTS; i++) {
            assert_true(schema->ints[i] == NULL || schema->ints[i - 1] != NULL);
        }
        for (int i = 1; i < IR_MAX_FLOATS; i++) {
            assert_true(schema->floats[i] == NULL || schema->floats[i - 1] != NULL);
        }
    }
}

static void pairs_are_sane(void **state) {
    (void)state;
    for (int code = 0; code < OP_COUNT; code++) {
        const op_def *op = ebb__op(code);
        assert_in_range(op->n_inplace, 0, OP_MAX_PAIRS);
        for (int32_t k = 0; k < op->n_inplace; k++) {
            assert_in_range(op->inplace[k].in, 0, op->n_in - 1);
            assert_in_range(op->inplace[k].out, 0, op->n_out - 1);
            for (int32_t j = 0; j < k; j++) {
                assert_false(op->inplace[j].in == op->inplace[k].in &&
                             op->inplace[j].out == op->inplace[k].out);
            }
            /* Some sample must be able to use the pair, or no test would. */
            bool used = false;
            for (int32_t s = 0; s < op->n_samples; s++) {
                op_case c;
                case_open(&c, code, &op->samples[s]);
                used = used || pairs_usable(&c, 1u << k);
                case_close(&c);
            }
            assert_true(used);
        }
    }
}

/* Printed, parsed and printed again, the graph of a sample is the same text. */
static void check_text(op_case *c) {
    const char *text, *again;
    ir_graph copy;
    ebb__op_graph_init(&copy, c->ctx);
    assert_int_equal(ebb__ir_print(&c->graph, &text), EBB_OK);
    if (ebb__ir_parse(&copy, text) != EBB_OK) {
        fail_msg("%s\n%s", ebb_last_error(c->ctx), text);
    }
    assert_int_equal(ebb__op_verify(&copy), EBB_OK);
    assert_int_equal(ebb__ir_print(&copy, &again), EBB_OK);
    assert_string_equal(text, again);
    ebb__ir_fini(&copy);
}

/* Samples infer, verify, survive text, and show optional operands both ways. */
static void samples_cover(void **state) {
    (void)state;
    for (int code = 0; code < OP_COUNT; code++) {
        const op_def *op = ebb__op(code);
        uint32_t present = 0, absent = 0;
        assert_true(op->n_samples >= 3);
        for (int32_t s = 0; s < op->n_samples; s++) {
            op_case c;
            case_open(&c, code, &op->samples[s]);
            assert_int_equal(ebb__op_verify(&c.graph), EBB_OK);
            check_text(&c);
            op_cost cost = ebb__op_cost(&c.graph, &c.node);
            assert_true(cost.flops >= 0 && cost.bytes >= 0);
            assert_true((cost.bytes > 0) == ((op->flags & OPF_ALIAS) == 0));
            for (int32_t i = 0; i < op->samples[s].n_in && i < op->n_in; i++) {
                *(c.in[i] == IR_NONE ? &absent : &present) |= 1u << i;
            }
            case_close(&c);
        }
        assert_int_equal(absent, op->optional);
        assert_int_equal(present & op->optional, op->optional);
    }
}

/* Row roles: every operand and result gets one, and a split or carried result has such an operand;
 * so has a result by batch rows, unless there are no operands. */
static void rows_are_sane(void **state) {
    (void)state;
    for (int code = 0; code < OP_COUNT; code++) {
        const op_def *op = ebb__op(code);
        for (int32_t s = 0; op->rows != NULL && s < op->n_samples; s++) {
            op_case c;
            op_row_role in[OP_MAX_SAMPLE_IN], out[IR_MAX_OUT];
            memset(in, 0x7f, sizeof in);
            memset(out, 0x7f, sizeof out);
            case_open(&c, code, &op->samples[s]);
            op->rows(&c.graph, &c.node, in, out);
            bool split = false, batch = c.node.n_in == 0;
            for (int32_t i = 0; i < c.node.n_in; i++) {
                assert_true(in[i] <= ROWS_ANY);
                split = split || in[i] == ROWS_SPLIT;
                batch = batch || in[i] == ROWS_BATCH || in[i] == ROWS_COLUMNS;
            }
            for (int32_t i = 0; i < c.node.n_out; i++) {
                bool by_rows = out[i] <= ROWS_CARRY || out[i] == ROWS_MEAN;
                assert_true(out[i] <= ROWS_COLUMNS || out[i] == ROWS_MEAN);
                assert_true(out[i] == ROWS_WHOLE || (by_rows ? split : batch));
            }
            case_close(&c);
        }
    }
}

/* Too few, too many, and missing operands are refused with a sentence that names the op. */
static void operands_are_checked(void **state) {
    (void)state;
    for (int code = 0; code < OP_COUNT; code++) {
        const op_def *op = ebb__op(code);
        const op_sample *sample = &op->samples[0];
        op_case c;
        ir_val out[IR_MAX_OUT], in[OP_MAX_SAMPLE_IN + 1];
        case_open(&c, code, sample);
        for (int32_t i = 0; i <= OP_MAX_SAMPLE_IN; i++) {
            in[i] = i < sample->n_in ? c.in[i] : c.node.out;
        }
        int32_t nodes = c.graph.n_nodes;
        if (op->n_in > 0) {
            assert_int_equal(
                ebb__op_emit(&c.graph, (op_code)code, in, op->n_in - 1, &sample->attr, out),
                EBB_USAGE);
            assert_ptr_equal(strstr(ebb_last_error(c.ctx), op->schema.name), ebb_last_error(c.ctx));
        }
        if ((op->flags & OPF_VARIADIC) == 0) {
            assert_int_equal(
                ebb__op_emit(&c.graph, (op_code)code, in, op->n_in + 1, &sample->attr, out),
                EBB_USAGE);
        }
        for (int32_t i = 0; i < op->n_in; i++) {
            ir_val kept = in[i];
            if ((op->optional >> i & 1) == 0) {
                in[i] = IR_NONE;
                assert_int_equal(
                    ebb__op_emit(&c.graph, (op_code)code, in, op->n_in, &sample->attr, out),
                    EBB_USAGE);
            }
            in[i] = c.graph.n_values;
            assert_int_equal(
                ebb__op_emit(&c.graph, (op_code)code, in, op->n_in, &sample->attr, out), EBB_USAGE);
            in[i] = kept;
        }
        assert_int_equal(c.graph.n_nodes, nodes);
        case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_has_no_hole), cmocka_unit_test(names_have_no_gap),
        cmocka_unit_test(pairs_are_sane),    cmocka_unit_test(samples_cover),
        cmocka_unit_test(rows_are_sane),     cmocka_unit_test(operands_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
