/* engine.c - the targets under libFuzzer: `ebb_fuzz --target=NAME [its options] CORPUS`. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const fuzz_target *chosen;

/* libFuzzer passes over what starts with two dashes. */
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    static const char option[] = "--target=";
    for (int i = 1; i < *argc; i++) {
        if (strncmp((*argv)[i], option, sizeof option - 1) == 0) {
            chosen = fuzz_find((*argv)[i] + sizeof option - 1);
        }
    }
    if (chosen == NULL) {
        (void)fprintf(stderr, "usage: ebb_fuzz --target=NAME; NAME is one of");
        for (size_t i = 0; fuzz_at(i) != NULL; i++) {
            (void)fprintf(stderr, " %s", fuzz_at(i)->name);
        }
        (void)fprintf(stderr, "\n");
        exit(2);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    fuzz_run(chosen, data, bytes);
    return 0;
}
