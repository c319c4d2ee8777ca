/* form.c - in which forms values can wait for backward: dense, and what ops name (op_def.form). */
#include "op/op.h"

#include <string.h>

/* The number of a form, which is a new one if it is not there yet. What finds no room counts as
 * dense; a test holds that all do. */
static int32_t number_of(op_forms *forms, const char *name) {
    int32_t i = 0;
    while (i < forms->n && strcmp(forms->names[i], name) != 0) {
        i++;
    }
    if (i == forms->n && i < FORMS_MOST) {
        forms->names[forms->n++] = name;
    }
    return i < FORMS_MOST ? i : 0;
}

op_forms ebb__op_forms(void) {
    op_forms forms = {.names = {"dense"}, .n = 1};
    for (int op = 0; op < OP_COUNT; op++) {
        forms.of[op] = ebb__op(op)->form != NULL ? number_of(&forms, ebb__op(op)->form) : 0;
    }
    return forms;
}
