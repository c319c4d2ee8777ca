/* output.c - standard output that is checked: data that did not arrive is a failed command. */
#include "cli/command.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

void ebb__cli_guard_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
    }
}

static bool reader_gone(void) {
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

ebb_status ebb__cli_flush(ebb_ctx *ctx, bool *quiet) {
    errno = 0;
    bool failed = ferror(stdout) != 0;
    failed = fflush(stdout) != 0 || failed;
    *quiet = failed && reader_gone();
    if (!failed || *quiet) {
        return failed ? EBB_IO : EBB_OK;
    }
    return ebb__fail(ctx, EBB_IO, "standard output: cannot write: %s",
                     errno != 0 ? strerror(errno) : "not all of it arrived");
}

void ebb__cli_print_graph(void *file, const char *pass, const char *text) {
    (void)fprintf(file, "# after %s\n%s\n", pass, text);
}

ebb_status ebb__cli_print_json(ebb_ctx *ctx, json_t *object) {
    if (object == NULL) {
        return ebb__fail(ctx, EBB_NOMEM, "the system gave no memory for the report");
    }
    /* Whether the bytes arrive is asked by ebb__cli_flush. */
    (void)json_dumpf(object, stdout, JSON_INDENT(2));
    (void)putchar('\n');
    json_decref(object);
    return EBB_OK;
}

json_t *ebb__cli_json_real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *ebb__cli_json_bytes(uint64_t value) {
    return json_integer(value < INT64_MAX ? (json_int_t)value : INT64_MAX);
}

json_t *ebb__cli_json_hash(uint64_t value) {
    char digits[17];
    (void)snprintf(digits, sizeof digits, "%016" PRIx64, value);
    return json_string(digits);
}
