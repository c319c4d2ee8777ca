/* stop.c - a polite end: the first signal raises a flag that the training loop polls. The flag is
 * the one variable with static storage that changes: a signal handler can reach nothing else. */
#include "cli/command.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t stop_asked;

static void ask_to_stop(int number) {
    (void)number;
    stop_asked = 1;
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
}

void ebb__cli_catch_signals(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = ask_to_stop;
    action.sa_flags = SA_RESTART;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGUSR2, &action, NULL); /* which mpirun hands on without ending anything */
    /* A background job of a shell without job control ignores SIGINT and means it. */
    struct sigaction before;
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
        (void)sigaction(SIGINT, &action, NULL);
    }
}

bool ebb__cli_stop_asked(void) {
    return stop_asked != 0;
}

void ebb__cli_ignore_signals(void) {
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGUSR2, SIG_IGN);
}
