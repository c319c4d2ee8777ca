/* picture.h - the pictures of a plan: the bytes over one step (step.c), the curve of all plans
 * worth taking (curve.c), what several ranks do when (ranks.c). */
#ifndef PAGE_PICTURE_H
#define PAGE_PICTURE_H

#include "page/text.h"
#include "plan/forecast.h"

/* Which layer has which colour, so that two pictures agree. */
enum { PICTURE_HUES = 8 };
typedef struct page_hues {
    char layers[PICTURE_HUES][64];
    int32_t n; /* 0: to be chosen */
} page_hues;

typedef struct page_picture {
    const char *path;  /* a file; or: */
    page_text *into;   /* appended to */
    const char *model; /* what was planned, in a few words */
    bool budget;       /* the user gave one: draw it */
    uint64_t high;     /* bytes that the scale of a step's picture must reach; 0: what it needs */
    page_hues *hues;   /* of a step's picture; NULL: its own */
    bool by_form;      /* of a step's picture: what waits for backward is coloured by its form, in
                          place of layers, of which nets have too many */
} page_picture;

/* ---- step.c ---- */

/* Bytes of the arena over the training step that takes most. Before ebb__plan_release. */
ebb_status ebb__draw_step(const ebb_plan *plan, const page_picture *picture) EBB_MUST_CHECK;

/* ---- curve.c ---- */

/* Seconds of a step over the bytes it may take. */
ebb_status ebb__draw_curve(const ebb_plan *plan, const page_picture *picture) EBB_MUST_CHECK;
/* What was decided to get to a plan: "replay 8 steps, loss by 64 rows". */
typedef struct curve_name {
    char text[96];
} curve_name;
curve_name ebb__curve_name(const plan_choice *choice);

/* ---- ranks.c ---- */

/* A step of several ranks; `what` is said of it in a line below the title. */
ebb_status ebb__draw_ranks(ebb_ctx *ctx, const forecast_step *step, int32_t stages,
                           const char *what, const page_picture *picture) EBB_MUST_CHECK;

#endif
