/* ir.c - a graph as text. What is accepted is printed and parsed again, to the same graph. */
#include "fuzz/fuzz.h"
#include "ir/graph.h"
#include "op/op.h"

#include <stdlib.h>
#include <string.h>

static void print_and_parse(fuzz_room *room, ir_graph *graph, const char **text, ir_graph *again) {
    ebb__op_graph_init(again, room->ctx);
    fuzz_require(ebb__ir_print(graph, text) == EBB_OK, "a graph cannot be printed");
    if (ebb__ir_parse(again, *text) != EBB_OK) {
        fuzz_require(false, ebb_last_error(room->ctx));
    }
}

/* Variables are printed first, so a graph that has them behind nodes gets other numbers once. */
static void round_trip(fuzz_room *room, ir_graph *graph) {
    const char *first = NULL, *second = NULL, *third = NULL;
    ir_graph again, last;
    print_and_parse(room, graph, &first, &again);
    print_and_parse(room, &again, &second, &last);
    fuzz_require(ebb__ir_print(&last, &third) == EBB_OK && strcmp(second, third) == 0,
                 "what was printed is parsed otherwise");
    ebb__ir_fini(&again);
    ebb__ir_fini(&last);
}

void fuzz_ir(fuzz_room *room, fuzz_input input) {
    char *text = fuzz_string(input);
    ir_graph graph;
    ebb__op_graph_init(&graph, room->ctx);
    ebb_status status = ebb__ir_parse(&graph, text);
    status = status == EBB_OK ? ebb__ir_verify(&graph) : status;
    if (status == EBB_OK) {
        round_trip(room, &graph);
    } else {
        /* Only tests parse graphs: one that is wrong is ours, and says so. */
        fuzz_require(ebb_last_error(room->ctx)[0] != '\0', "a refusal needs a sentence");
    }
    ebb__ir_fini(&graph);
    free(text);
}
