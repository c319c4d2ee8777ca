/* nets.h - what net.c and darknet.c share. What is accepted has shapes that can be counted, and is
 * printed and parsed again to the same text. */
#ifndef TESTS_FUZZ_NETS_H
#define TESTS_FUZZ_NETS_H

#include "fuzz/fuzz.h"
#include "model/net_text.h"

#include <string.h>

static inline void fuzz_check_layers(const net_model *net) {
    int64_t weights = 0, madds = 0;
    for (int32_t i = 0; i < net->n_layers; i++) {
        const net_layer *layer = &net->layers[i];
        int64_t elements = net_elements(&layer->out);
        fuzz_require(elements >= 1 && elements <= NET_MOST_ELEMENTS, "a map that cannot be");
        for (int32_t k = 0; k < layer->n_from; k++) {
            fuzz_require(net_in(net, layer, k) >= 0 && net_in(net, layer, k) < i,
                         "a layer reads a later one");
        }
        weights += ebb__net_weights(net, layer);
        madds += ebb__net_madds(net, layer);
    }
    fuzz_require(weights >= 0 && madds >= 0, "counts overflow");
}

static inline void fuzz_net_round_trip(fuzz_room *room, net_model *net) {
    const char *first = NULL, *second = NULL;
    net_model again;
    ebb__net_init(&again, room->ctx);
    fuzz_require(ebb__net_print(net, &first) == EBB_OK, "a net cannot be printed");
    if (ebb__net_parse(&again, "again", first) != EBB_OK) {
        fuzz_require(false, ebb_last_error(room->ctx));
    }
    fuzz_require(ebb__net_print(&again, &second) == EBB_OK && strcmp(first, second) == 0,
                 "what was printed is parsed otherwise");
    ebb__net_fini(&again);
}

#endif
