/* paths.c - where the relative paths in the config of a run start.
 *
 * A config that says `out = runs/a` and lies in /x/runs/a was written by a run that was started in
 * /x: there its other relative paths start too, wherever the config is read. Configs that lie
 * elsewhere were written by hand, and their paths start where the command is called, as those of
 * the command line do. */
#include "train/option_set.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct real_path {
    char text[PATH_MAX];
} real_path;

/* Whether the folder of a run can tell where the run was started. */
static bool is_below(const char *out) {
    return out[0] != '/' && strcmp(out, "..") != 0 && strncmp(out, "../", 3) != 0 &&
           strstr(out, "/../") == NULL;
}

/* Cuts `out` off the end of the folder; false if it does not end so. */
static bool cut_off(char *folder, const char *out) {
    while (strncmp(out, "./", 2) == 0) {
        out += 2;
    }
    size_t n = strlen(folder), m = strcmp(out, ".") != 0 ? strlen(out) : 0;
    while (m > 0 && out[m - 1] == '/') {
        m--;
    }
    if (m == 0) {
        return true;
    }
    if (n <= m || folder[n - m - 1] != '/' || memcmp(folder + n - m, out, m) != 0) {
        return false;
    }
    folder[n - m - 1] = '\0';
    return true;
}

/* The path after `folder`; of several with commas between them, each that is relative. */
static void put_joined(const char *folder, const char *path, char *out, size_t room) {
    size_t used = 0;
    bool several = strchr(path, ',') != NULL && access(path, F_OK) != 0;
    while (*path != '\0') {
        size_t n = several ? strcspn(path, ",") : strlen(path);
        bool stays = *path == '/' || (n == 1 && *path == '-');
        used += (size_t)snprintf(out + used, room - used, "%s%s%.*s%s", stays ? "" : folder,
                                 stays ? "" : "/", (int)n, path, path[n] == ',' ? "," : "");
        path += n + (path[n] == ',');
    }
}

/* All relative paths now start in `folder`. */
static ebb_status start_at(const option_set *set, const char *folder) {
    const model_kind *kind = set->kind;
    for (size_t i = 0; i < ebb__options_count(set); i++) {
        const train_option *option = ebb__options_at(set, i);
        const char **at = (const char **)(void *)((char *)set->base + option->offset);
        if ((option->flags & OPTION_PATH) == 0 || *at == NULL ||
            (kind->is_name != NULL && kind->is_name(option, *at))) {
            continue;
        }
        size_t parts = 1;
        for (const char *comma = *at; (comma = strchr(comma, ',')) != NULL; comma++) {
            parts++;
        }
        size_t room = parts * (strlen(folder) + 1) + strlen(*at) + 1;
        char *joined = NULL;
        TRY(ebb__region_alloc(set->region, room, 1, &joined));
        put_joined(folder, *at, joined, room);
        *at = joined;
    }
    return EBB_OK;
}

ebb_status ebb__paths_of_run(const option_set *set, const char *config) {
    real_path folder, here;
    const char *slash = strrchr(config, '/'), *out = ((const train_settings *)set->base)->out_dir;
    char dir[PATH_MAX];
    int n = slash != NULL ? snprintf(dir, sizeof dir, "%.*s", (int)(slash + 1 - config), config)
                          : snprintf(dir, sizeof dir, ".");
    if (!ebb__options_given(set, "out") || !is_below(out) || n >= (int)sizeof dir ||
        realpath(dir, folder.text) == NULL || realpath(".", here.text) == NULL ||
        !cut_off(folder.text, out) || strcmp(folder.text, here.text) == 0) {
        return EBB_OK;
    }
    return start_at(set, folder.text);
}

ebb_status ebb__paths_to_store(const option_set *set) {
    real_path here;
    if (is_below(((const train_settings *)set->base)->out_dir) ||
        realpath(".", here.text) == NULL) {
        return EBB_OK;
    }
    return start_at(set, strcmp(here.text, "/") == 0 ? "" : here.text);
}
