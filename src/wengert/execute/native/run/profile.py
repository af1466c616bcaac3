"""Profiler records of which thread ran what, and when: the driver's part, and the memory that holds them.

A call that is watched brings memory for its records (`driver.CALL_PROFILE`). Every thread has a region of its own
there, which nobody else writes to while the call lasts: for each range of units that it runs one record, of
`RECORD` words. A region that is full keeps counting.

Times are nanoseconds of the system's monotonic clock (`clock_gettime`: a look takes 23 ns). The processor's counter of
cycles would take 10, and need a calibration, and trust that the cores' counters agree; ranges that are shared
out last microseconds. Where there are no helpers, and so no such clock to be counted on, Python's is called.
"""

from __future__ import annotations

from .scheduler import LINE

# The memory, in bytes: how many records a region has room for, how far it is from one region to the next, the
# address of a clock (a function without arguments, for where the driver has none), the regions.
PROFILE_ROOM, PROFILE_STRIDE, PROFILE_CLOCK, PROFILE_REGIONS = 0, 8, 16, LINE
# A region is the number of ranges that its thread ran, on a line of its own, and the records of the first of them:
# the step's address, the units from and to, the times from and to.
RECORD = RECORD_STEP, RECORD_LO, RECORD_HI, RECORD_START, RECORD_END = range(5)

# The clock, for drivers without helpers. (The others have one already.)
CLOCK_OF_PYTHON = """
define internal i64 @moment(ptr %profile) {
  %clock.p = getelementptr i8, ptr %profile, i64 $PROFILE_CLOCK
  %clock = load ptr, ptr %clock.p
  %ns = call i64 %clock()
  ret i64 %ns
}
"""
CLOCK_OF_SYSTEM = """
define internal i64 @moment(ptr %profile) {
  %ns = call i64 @now()
  ret i64 %ns
}
"""

IR = """
%Record = type { ptr, i64, i64, i64, i64 }

; Run a range of a step's units as thread %me, and record it where the call is profiled.
define internal void @units(ptr %s, ptr %table, ptr %profile, i64 %lo, i64 %hi, i64 %me) {
  %kernel = load ptr, ptr %s
  %record.p = getelementptr %Step, ptr %s, i64 0, i32 1
  %record = load ptr, ptr %record.p
  %watched = icmp ne ptr %profile, null
  br i1 %watched, label %watch, label %run

run:
  call void %kernel(ptr %table, ptr %record, i64 %lo, i64 %hi, i64 %me)
  ret void

watch:
  %start = call i64 @moment(ptr %profile)
  call void %kernel(ptr %table, ptr %record, i64 %lo, i64 %hi, i64 %me)
  %end = call i64 @moment(ptr %profile)
  %stride.p = getelementptr i8, ptr %profile, i64 $PROFILE_STRIDE
  %stride = load i64, ptr %stride.p
  %at = mul i64 %me, %stride
  %regions = getelementptr i8, ptr %profile, i64 $PROFILE_REGIONS
  %region = getelementptr i8, ptr %regions, i64 %at
  %n = load i64, ptr %region
  %n.next = add i64 %n, 1
  store i64 %n.next, ptr %region
  %room = load i64, ptr %profile
  %fits = icmp slt i64 %n, %room
  br i1 %fits, label %write, label %done

write:
  %records = getelementptr i8, ptr %region, i64 $LINE
  %row = getelementptr %Record, ptr %records, i64 %n
  store ptr %s, ptr %row
  %lo.p = getelementptr %Record, ptr %row, i64 0, i32 1
  store i64 %lo, ptr %lo.p
  %hi.p = getelementptr %Record, ptr %row, i64 0, i32 2
  store i64 %hi, ptr %hi.p
  %start.p = getelementptr %Record, ptr %row, i64 0, i32 3
  store i64 %start, ptr %start.p
  %end.p = getelementptr %Record, ptr %row, i64 0, i32 4
  store i64 %end, ptr %end.p
  br label %done

done:
  ret void
}

; Run a step as one thread.
define internal void @alone(ptr %s, ptr %table, ptr %profile) {
  %units.p = getelementptr %Step, ptr %s, i64 0, i32 2
  %units = load i64, ptr %units.p
  call void @units(ptr %s, ptr %table, ptr %profile, i64 0, i64 %units, i64 0)
  ret void
}
"""
