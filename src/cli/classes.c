/* classes.c - what an evaluation found class by class, for people and as JSON. */
#include "cli/command.h"

#include "page/text.h"

#include <inttypes.h>
#include <string.h>

/* Classes that are all listed, and those whose confusion matrix is printed; confusions of a list;
 * classes whose matrix is part of the JSON. */
enum { LISTED = 40, SQUARE = 12, WORST = 10, PACKED = 256, NAME = 20 };

typedef struct class_name {
    char text[4 * NAME + 1];
} class_name;

/* The name, or the number, in at most NAME characters. */
static class_name name_of(const kind_classes *classes, uint32_t k) {
    class_name name;
    const char *from = classes->names[k];
    if (from == NULL) {
        (void)snprintf(name.text, sizeof name.text, "%" PRIu32, k);
        return name;
    }
    (void)snprintf(name.text, sizeof name.text, "%.*s",
                   (int)ebb__page_cut(from, NAME, sizeof name.text), from);
    return name;
}

/* Characters, which take a column each for most names there are. */
static int width_of(const char *text) {
    int width = 0;
    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return width;
}

static double share(uint64_t part, uint64_t whole) {
    return whole > 0 ? (double)part / (double)whole : -1;
}

static void print_share(FILE *file, uint64_t part, uint64_t whole) {
    if (whole > 0) {
        (void)fprintf(file, " %9.4f", share(part, whole));
    } else {
        (void)fprintf(file, " %9s", "-");
    }
}

static void print_class(FILE *file, const kind_classes *classes, uint32_t k) {
    class_name name = name_of(classes, k);
    (void)fprintf(file, "  %s%*s %9" PRIu64, name.text, NAME - width_of(name.text), "",
                  classes->images[k]);
    print_share(file, classes->right[k], classes->said[k]);
    print_share(file, classes->right[k], classes->images[k]);
    (void)fputc('\n', file);
}

/* ---- the worst ---- */

/* Classes by recall, or pairs of them by how often one is taken for the other: the first WORST. */
typedef struct worst_list {
    struct {
        double badness;
        uint32_t is, said;
    } at[WORST];
    int n;
} worst_list;

static void note_worst(worst_list *list, double badness, uint32_t is, uint32_t said) {
    if (list->n == WORST && list->at[WORST - 1].badness >= badness) {
        return;
    }
    int at = list->n < WORST ? list->n++ : WORST - 1;
    for (; at > 0 && list->at[at - 1].badness < badness; at--) {
        list->at[at] = list->at[at - 1];
    }
    list->at[at].badness = badness;
    list->at[at].is = is;
    list->at[at].said = said;
}

static worst_list worst_classes(const kind_classes *classes) {
    worst_list list = {.n = 0};
    for (uint32_t k = 0; k < classes->n; k++) {
        if (classes->images[k] > 0) {
            note_worst(&list, 1 - share(classes->right[k], classes->images[k]), k, k);
        }
    }
    return list;
}

static worst_list worst_confusions(const kind_classes *classes) {
    worst_list list = {.n = 0};
    for (uint32_t is = 0; classes->confused != NULL && is < classes->n; is++) {
        for (uint32_t said = 0; said < classes->n; said++) {
            uint64_t times = classes->confused[(uint64_t)is * classes->n + said];
            if (is != said && times > 0) {
                note_worst(&list, (double)times, is, said);
            }
        }
    }
    return list;
}

/* ---- for people ---- */

static void print_square(FILE *file, const kind_classes *classes) {
    (void)fprintf(file,
                  "\n  of a class (rows), said to be of which (columns, in the same order)\n");
    for (uint32_t is = 0; is < classes->n; is++) {
        class_name name = name_of(classes, is);
        (void)fprintf(file, "  %.*s%*s", NAME, name.text, NAME - width_of(name.text), "");
        for (uint32_t said = 0; said < classes->n; said++) {
            (void)fprintf(file, " %6" PRIu64, classes->confused[(uint64_t)is * classes->n + said]);
        }
        (void)fputc('\n', file);
    }
}

static void print_confusions(FILE *file, const kind_classes *classes) {
    worst_list list = worst_confusions(classes);
    if (list.n > 0) {
        (void)fprintf(file, "\n  most often taken for another\n");
    }
    for (int i = 0; i < list.n; i++) {
        uint32_t is = list.at[i].is;
        (void)fprintf(file, "  %s said to be %s: %.0f of %" PRIu64 "\n", name_of(classes, is).text,
                      name_of(classes, list.at[i].said).text, list.at[i].badness,
                      classes->images[is]);
    }
}

void ebb__cli_print_classes(FILE *file, const kind_classes *classes) {
    if (classes->n == 0) {
        return;
    }
    bool all = classes->n <= LISTED;
    (void)fprintf(file, "\n  %-*s %9s %9s %9s\n", NAME, all ? "class" : "class (the worst)",
                  "images", "precision", "recall");
    worst_list worst = worst_classes(classes);
    for (uint32_t i = 0; i < (all ? classes->n : (uint32_t)worst.n); i++) {
        print_class(file, classes, all ? i : worst.at[i].is);
    }
    if (classes->n <= SQUARE) {
        print_square(file, classes);
    } else {
        print_confusions(file, classes);
    }
}

/* ---- as JSON ---- */

static json_t *class_json(const kind_classes *classes, uint32_t k) {
    uint64_t right = classes->right[k], said = classes->said[k], images = classes->images[k];
    json_t *object = json_pack("{s:I, s:o, s:o, s:o}", "class", (json_int_t)k, "images",
                               ebb__cli_json_bytes(images), "precision",
                               said > 0 ? json_real(share(right, said)) : json_null(), "recall",
                               images > 0 ? json_real(share(right, images)) : json_null());
    if (object != NULL && classes->names[k] != NULL &&
        json_object_set_new(object, "name", json_string(classes->names[k])) != 0) {
        json_decref(object);
        object = NULL;
    }
    return object;
}

static json_t *classes_json(const kind_classes *classes) {
    json_t *list = json_array();
    for (uint32_t k = 0; list != NULL && k < classes->n; k++) {
        if (json_array_append_new(list, class_json(classes, k)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static json_t *row_json(const kind_classes *classes, uint32_t is) {
    json_t *row = json_array();
    for (uint32_t said = 0; row != NULL && said < classes->n; said++) {
        uint64_t times = classes->confused[(uint64_t)is * classes->n + said];
        if (json_array_append_new(row, ebb__cli_json_bytes(times)) != 0) {
            json_decref(row);
            row = NULL;
        }
    }
    return row;
}

static json_t *confusion_json(const kind_classes *classes) {
    json_t *rows = json_array();
    for (uint32_t is = 0; rows != NULL && is < classes->n; is++) {
        if (json_array_append_new(rows, row_json(classes, is)) != 0) {
            json_decref(rows);
            rows = NULL;
        }
    }
    return rows;
}

static json_t *worst_json(const kind_classes *classes) {
    worst_list worst = worst_confusions(classes);
    json_t *list = json_array();
    for (int i = 0; list != NULL && i < worst.n; i++) {
        json_t *one =
            json_pack("{s:I, s:I, s:I}", "class", (json_int_t)worst.at[i].is, "said",
                      (json_int_t)worst.at[i].said, "images", (json_int_t)worst.at[i].badness);
        if (json_array_append_new(list, one) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static json_t *wrong_json(const kind_classes *classes) {
    json_t *list = json_array();
    for (int32_t i = 0; list != NULL && i < classes->n_wrong; i++) {
        const kind_wrong *w = &classes->wrong[i];
        json_t *one =
            json_pack("{s:o, s:i, s:i, s:o}", "image", ebb__cli_json_bytes(w->image), "class",
                      w->label, "said", w->said, "probability", ebb__cli_json_real(w->probability));
        if (json_array_append_new(list, one) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

bool ebb__cli_classes_json(const kind_classes *classes, json_t *to) {
    if (classes->n == 0) {
        return true;
    }
    bool done = json_object_set_new(to, "classes", classes_json(classes)) == 0 &&
                json_object_set_new(to, "worst_confusions", worst_json(classes)) == 0 &&
                json_object_set_new(to, "worst_images", wrong_json(classes)) == 0;
    return classes->n > PACKED || classes->confused == NULL
               ? done
               : done && json_object_set_new(to, "confusion", confusion_json(classes)) == 0;
}
