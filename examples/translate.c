/* translate.c - a trained translation run used from C: lines of standard input, their translations
 * on standard output, in 64 MiB.
 *
 *     ./translate RUN <lines.en >lines.de
 */
#include <ebb.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 10000, LONGEST = 4096 };

static int print_line(void *user, const ebb_translation *found) {
    (void)user;
    return puts(found->text) < 0; /* other than 0 stops */
}

int main(int argc, char **argv) {
    static char *lines[MOST_LINES];
    static char line[LONGEST];
    uint64_t n = 0;
    ebb_ctx *ctx = NULL;
    ebb_run *run = NULL;
    ebb_run_options options = ebb_run_options_default();
    options.memory = 64 << 20;
    if (argc != 2 || ebb_ctx_new(&ctx) != EBB_OK) {
        fprintf(stderr, "usage: translate RUN\n");
        return 2;
    }
    for (; n < MOST_LINES && fgets(line, LONGEST, stdin) != NULL; n++) {
        line[strcspn(line, "\n")] = '\0';
        lines[n] = malloc(strlen(line) + 1);
        if (lines[n] == NULL) {
            break;
        }
        strcpy(lines[n], line);
    }
    ebb_status status = ebb_run_open(ctx, argv[1], &options, &run);
    if (status == EBB_OK) {
        status = ebb_run_translate(run, (const char *const *)lines, n, NULL, print_line, NULL);
    }
    if (status != EBB_OK) {
        fprintf(stderr, "translate: %s\n", ebb_last_error(ctx));
    }
    ebb_run_close(run);
    ebb_ctx_free(ctx);
    for (uint64_t i = 0; i < n; i++) {
        free(lines[i]);
    }
    return (int)status;
}
