/* units.c - see units.h. */
#include "page/units.h"

#include <math.h>
#include <stdio.h>

unit_text ebb__unit_bytes(uint64_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unit_text out;
    if (bytes < 1024) {
        (void)snprintf(out.text, sizeof out.text, "%d B", (int)bytes);
        return out;
    }
    double value = (double)bytes / 1024;
    int unit = 0;
    while (value >= 1023.95 && unit < 5) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out.text, sizeof out.text, "%.1f %s", value, units[unit]);
    return out;
}

unit_text ebb__unit_seconds(double seconds) {
    unit_text out;
    long long whole = seconds > 0 && seconds < 1e12 ? llround(seconds) : 0;
    if (whole < 60) {
        (void)snprintf(out.text, sizeof out.text, "%llds", whole);
    } else if (whole < 3600) {
        (void)snprintf(out.text, sizeof out.text, "%lldm%02llds", whole / 60, whole % 60);
    } else {
        (void)snprintf(out.text, sizeof out.text, "%lldh%02lldm", whole / 3600, whole / 60 % 60);
    }
    return out;
}

unit_text ebb__unit_rate(double per_second) {
    unit_text out;
    if (per_second >= 1e6) {
        (void)snprintf(out.text, sizeof out.text, "%.2fM", per_second / 1e6);
    } else if (per_second >= 1e4) {
        (void)snprintf(out.text, sizeof out.text, "%.1fk", per_second / 1e3);
    } else {
        (void)snprintf(out.text, sizeof out.text, "%.0f", per_second);
    }
    return out;
}

unit_text ebb__unit_score(double value) {
    unit_text out;
    (void)snprintf(out.text, sizeof out.text,
                   value <= 1    ? "%.4f"
                   : value < 100 ? "%.2f"
                   : value < 1e6 ? "%.1f"
                                 : "%.2g",
                   value);
    return out;
}
