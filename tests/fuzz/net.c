/* net.c - a file of a net, ours or Darknet's. */
#include "fuzz/nets.h"

void fuzz_net(fuzz_room *room, fuzz_input input) {
    fuzz_path path = fuzz_file(room, "net");
    net_model net;
    fuzz_write(path, input.at, input.left);
    ebb__net_init(&net, room->ctx);
    if (fuzz_fine(room, ebb__net_load(&net, path.text))) {
        fuzz_check_layers(&net);
        fuzz_net_round_trip(room, &net);
    }
    ebb__net_fini(&net);
}
