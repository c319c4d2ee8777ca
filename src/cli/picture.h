/* picture.h - what `ebb plan` draws and prints of time and memory: the bytes over one step
 * (picture.c), and the list of all plans worth taking (curve.c). */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include "cli/command.h"

/* Which layer has which colour, so that two pictures agree. */
enum { PICTURE_HUES = 8 };
typedef struct cli_hues {
    char layers[PICTURE_HUES][64];
    int32_t n; /* 0: to be chosen */
} cli_hues;

typedef struct cli_picture {
    const char *path;  /* a file; or: */
    cli_text *into;    /* appended to */
    const char *model; /* what was planned, in a few words */
    bool budget;       /* the user gave one: draw it */
    uint64_t high;     /* bytes that the scale of a step's picture must reach; 0: what it needs */
    cli_hues *hues;    /* of a step's picture; NULL: its own */
} cli_picture;

/* ---- picture.c ---- */

/* Bytes of the arena over the training step that takes most. Before ebb__plan_release. */
ebb_status ebb__cli_draw_step(const ebb_plan *plan, const cli_picture *picture) EBB_MUST_CHECK;

/* ---- curve.c ---- */

/* Seconds of a step over the bytes it may take. */
ebb_status ebb__cli_draw_curve(const ebb_plan *plan, const cli_picture *picture) EBB_MUST_CHECK;
void ebb__cli_print_curve(FILE *file, const char *model, const ebb_plan *plan);
json_t *ebb__cli_curve_json(const ebb_plan *plan); /* NULL: no memory */

#endif
