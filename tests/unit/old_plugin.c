/* old_plugin.c - a plugin as another version of ebb has it; test_comm_lost.c sees it refused. */
#include "comm/backend.h"

extern const comm_calls ebb_comm_mpi;
__attribute__((visibility("default"))) const comm_calls ebb_comm_mpi = {
    .version = COMM_VERSION - 1, .bytes = sizeof(comm_calls), .name = "old"};
