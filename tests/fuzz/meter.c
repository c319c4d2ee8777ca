/* meter.c - the counters of energy in /sys: three files, separated by zero bytes. */
#include "fuzz/fuzz.h"
#include "train/meter.h"

#include <math.h>

void fuzz_meter(fuzz_room *room, fuzz_input input) {
    fuzz_path energy = fuzz_file(room, "sys/class/powercap/intel-rapl:0/energy_uj");
    fuzz_path range = fuzz_file(room, "sys/class/powercap/intel-rapl:0/max_energy_range_uj");
    fuzz_input first = fuzz_part(&input, 0), second = fuzz_part(&input, 0);
    meter from, to;
    fuzz_write(range, input.at, input.left);
    fuzz_write(energy, first.at, first.left);
    ebb__meter_read_at(room->folder, &from);
    fuzz_write(energy, second.at, second.left);
    ebb__meter_read_at(room->folder, &to);
    fuzz_require(from.packages <= 1 && to.packages <= 1, "there is one package");
    double joules = ebb__meter_joules_at(room->folder, &from, &to);
    fuzz_require(isfinite(joules), "an energy is a number");
}
