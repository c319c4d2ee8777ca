/* kind.c - what all kinds of models share: see kind.h. */
#include "train/job_int.h"

#include <xxhash.h>

uint64_t ebb__kind_join_hashes(const train_settings *s, uint64_t source, uint64_t target) {
    uint64_t both[] = {source, target};
    return kind_has_pairs(s) ? XXH3_64bits(both, sizeof both) : target;
}

int64_t ebb__kind_positions(const train_settings *s, const ebb_plan *plan) {
    const plan_variable *labels = ebb__plan_variable(plan, s->kind->labels);
    return labels != NULL ? (int64_t)(labels->bytes / sizeof(int32_t)) : 0;
}

train_settings ebb__kind_planned(const train_settings *s, const ebb_plan *plan) {
    train_settings planned = *s;
    const job_programs *p = plan->free_source == ebb__job_programs_free ? plan->source : NULL;
    data_shape longest = {0};
    for (int32_t i = 0; p != NULL && i < p->n; i++) {
        if (p->at[i].use == JOB_TRAIN || p->at[i].use == JOB_VALID) {
            data_shape_widen(&longest, p->at[i].shape.source, p->at[i].shape.target);
        }
    }
    if (longest.target > 0 && s->kind->set_longest != NULL) {
        s->kind->set_longest(&planned, longest.source, longest.target);
    }
    return planned;
}

void ebb__facts_free(kind_facts *facts) {
    if (facts->held != NULL) {
        facts->release(facts->held);
    }
    *facts = (kind_facts){0};
}

static struct kind_fact *add_fact(kind_facts *facts, const char *name) {
    int32_t at = facts->n < KIND_MOST_FACTS ? facts->n++ : KIND_MOST_FACTS - 1;
    facts->at[at] = (struct kind_fact){.name = name};
    return &facts->at[at];
}

void ebb__facts_count(kind_facts *facts, const char *name, uint64_t count) {
    struct kind_fact *fact = add_fact(facts, name);
    fact->whole = true;
    fact->count = count;
}

void ebb__facts_real(kind_facts *facts, const char *name, double real) {
    add_fact(facts, name)->real = real;
}
