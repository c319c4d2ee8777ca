/* page_classes.c - what an evaluation found class by class, as pages show it: the confusion matrix
 * and the surest of the wrong answers. */
#include "cli/page_classes.h"

#include <inttypes.h>
#include <stdio.h>

static const char *name_of(cli_classes *c, int32_t i, int which, int32_t k) {
    const char *name = c->facts->classes.names[k];
    char *number = c->numbers[i][which];
    (void)snprintf(number, sizeof c->numbers[i][which], "%" PRId32, k);
    return name != NULL ? name : number;
}

static ebb_status show(void *user, int32_t i, page_image *out) {
    cli_classes *c = user;
    kind_pixels pixels;
    TRY(c->facts->show(c->facts->held, c->wrong[i].number, &pixels));
    *out = (page_image){pixels.height, pixels.width, pixels.channels, pixels.at};
    return EBB_OK;
}

void ebb__cli_page_classes(cli_classes *c, const kind_facts *facts, const char *whose,
                           html_page *page) {
    const kind_classes *classes = &facts->classes;
    c->facts = facts;
    for (int32_t i = 0; i < classes->n_wrong; i++) {
        const kind_wrong *w = &classes->wrong[i];
        c->wrong[i] = (html_wrong){name_of(c, i, 0, w->label), name_of(c, i, 1, w->said),
                                   w->probability, w->image};
    }
    page->wrong = c->wrong;
    page->n_wrong = classes->n_wrong;
    page->show = show;
    page->show_user = c;
    if (classes->n <= CONFUSION_MOST) {
        page->confusion = (confusion_matrix){classes->n, classes->names, classes->confused};
        (void)snprintf(c->about, sizeof c->about,
                       "The best weights on %s. A row adds up to the images of its class: the "
                       "stronger the colour, the more of them.",
                       whose);
        page->about_confusion = c->about;
    }
}
