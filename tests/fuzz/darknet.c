/* darknet.c - a net as Darknet's sections; what is accepted is printed in our form. */
#include "fuzz/nets.h"

#include <stdlib.h>

void fuzz_darknet(fuzz_room *room, fuzz_input input) {
    char *text = fuzz_string(input);
    net_model net;
    ebb__net_init(&net, room->ctx);
    if (fuzz_fine(room, ebb__net_parse_darknet(&net, "cfg", text))) {
        fuzz_check_layers(&net);
        fuzz_net_round_trip(room, &net);
    }
    ebb__net_fini(&net);
    free(text);
}
