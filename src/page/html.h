/* html.h - a page about a run, one file that needs nothing else: what came out, the bytes of one
 * step before and after planning, time against memory, how training went, what the model says, and
 * every setting. */
#ifndef PAGE_HTML_H
#define PAGE_HTML_H

#include "page/attention.h"
#include "page/confusion.h"
#include "page/image.h"
#include "page/learning.h"
#include "page/picture.h"

typedef struct html_sample {
    char *source, *target, *translation;
} html_sample;

/* An image that was taken for another class; a class without a name has its number as one. */
typedef struct html_wrong {
    const char *is, *said;
    double probability; /* of what was said */
    uint64_t number;    /* of the image */
} html_wrong;

/* What the page tells. Filled by the caller, down to the line. */
typedef struct html_page {
    page_text text;
    const char *dir;               /* the run's folder */
    const char *kind, *model;      /* what it trains, in two words and in a few */
    const char *unit;              /* of its speed */
    const ebb_plan *plan, *before; /* of the run, and with everything kept; NULL: cannot be made */
    const char *why;               /* they cannot be made, then */
    bool budget;                   /* the user gave one */
    bool by_form;                  /* see page_picture */
    learning_curve learning;
    double smoothing;           /* of the labels that are trained */
    const html_sample *samples; /* NULL: this kind of model has none */
    int32_t n_samples;
    char *no_samples;            /* why there are none; NULL: there are */
    attention_log *attention;    /* of the samples */
    confusion_matrix confusion;  /* of what was validated on; n 0: there is none */
    const char *about_confusion; /* what it is of, or why there is none; NULL: nothing to be said */
    const html_wrong *wrong;     /* those that were the surest; may be none */
    int32_t n_wrong;
    /* Pixels of one of them, until the next call. */
    ebb_status (*show)(void *user, int32_t i, page_image *out);
    void *show_user;
    /* ---- */
    page_hues hues;    /* of both pictures of a step */
    const char *group; /* of the setting that was added last */
    alloc_region region;
} html_page;

/* Writes all but the settings, which are added one by one, group by group; `group` must live until
 * the end. Free with ebb__html_fini in any case. */
ebb_status ebb__html_begin(html_page *page) EBB_MUST_CHECK;
ebb_status ebb__html_setting(html_page *page, const char *group, const char *key,
                             const char *value) EBB_MUST_CHECK;
ebb_status ebb__html_end(html_page *page, const char *path) EBB_MUST_CHECK;
/* A page of classes alone, by what stands from `confusion` on, with `kind` as its title and `model`
 * below that. */
ebb_status ebb__html_classes(html_page *page, const char *path) EBB_MUST_CHECK;
void ebb__html_fini(html_page *page);

#endif
