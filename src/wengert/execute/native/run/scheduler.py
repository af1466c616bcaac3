"""The work-stealing scheduler: the driver's part that divides a step among threads, and their shared memory.

The units of a step are cut into chunks, and each thread is given a contiguous share of them, the
same part in every step, so that rows stay in one core's cache. A thread takes chunks from the front
of its own share, then from the back of the others' (as in work stealing: Blumofe and Leiserson,
J. ACM 46, 1999). A share is one word, `epoch | end | next`, and taking a chunk is one
compare-and-swap of it. The epoch counts shared steps, so a thread that comes late finds another
number there and takes nothing; it looks at what the step *is* only after it took something, for
then the step cannot end before it is done.

The calling thread never waits for a helper that has not begun: it does all that nobody took, then
waits for the chunks in progress. A helper that gets no processor therefore costs nothing, and one
that loses it in the midst of a chunk costs one wait.

**Whether to share** is asked before every step, of two who have learned by doing.

- The step knows how long it takes one thread, and how long it takes all (running means, in its own words of the
  program), and goes the shorter way. `PROBE` runs now and then are given to the other way, at intervals that double
  while that changes nothing: what crosses from one core's cache to another's can cost more than a second thread
  saves, and on a virtual machine that changes from minute to minute.
- The team keeps an account of the processor. What was lost by waiting (against the time that one thread
  would have needed, by the pace of the calling thread's own chunks) is paid back by `PAY_BACK` times as much work
  done alone, twice that at each loss that follows, until helpers have won as much as they lost. Only steps that
  are shorter than the debt pay it: a short wait is no reason to do a long step alone.

Helpers spin for `SPIN_NS` after a step and then sleep on a futex; a step rings them only if some sleep.
The scheduler likes to wake a helper on the very processor that the calling thread is running on, and in its stead. A
helper that finds itself there moves away, and keeps off that processor from then on (or goes back to sleep where it may
run on no other); that counts as a loss of `COLLISION_NS`.
"""

from __future__ import annotations

# A share holds two numbers of chunks in 12 bits each, below 40 bits of the epoch.
MOST_CHUNKS = (1 << 12) - 1

# A team's memory, in bytes. What different threads write lies on different pairs of cache lines
# (processors fetch lines in pairs).
LINE = 128
TEAM_OWNER = 0
TEAM_EPOCH, TEAM_STEP, TEAM_TABLE, TEAM_PROFILE = (LINE + 8 * i for i in range(4))
TEAM_LEFT = 2 * LINE
TEAM_BELL, TEAM_SLEEPERS, TEAM_QUIT, TEAM_CPU, TEAM_COLLIDED = (3 * LINE + 4 * i for i in range(5))
TEAM_THREADS, TEAM_PENALTY, TEAM_OWED, TEAM_STREAK = 4 * LINE, 4 * LINE + 8, 4 * LINE + 16, 4 * LINE + 24
TEAM_SHARES = 5 * LINE

# The time that a helper spins for the next step before it sleeps. Waking one takes 10 to 40 microseconds,
# and between the calls of a loop in Python there are some tens.
SPIN_NS = 100_000
# The times that the calling thread looks for the end of chunks in progress before it sleeps.
AWAIT_SPINS = 1000
# The team's account: see above. A wait is a loss if it made the step longer than one thread's time by an eighth,
# and by so much that it was for a processor rather than for memory.
PAY_BACK = 8
LOSS_NS = 20_000
COLLISION_NS = 20_000
MOST_DOUBLINGS = 3
# The step's two ways: how many runs in a row try the other one, after how many runs first, and at most. A long step
# that gains a quarter by sharing does not try to be alone.
# Helpers that slept are there after some tens of microseconds: a trial of short steps has to last as long.
PROBE = 12
INTERVAL, MOST_INTERVAL = 48, 6144
LONG_NS = 50_000

# Where there are no helpers, nothing is shared out and no times are taken.
IR_WITHOUT = """
define internal ptr @acquire(ptr %wanted) {
  ret ptr null
}
define internal void @release(ptr %team) {
  ret void
}
define internal i64 @measured(ptr %team, ptr %s, ptr %table, i1 %share, ptr %profile) {
  call void @alone(ptr %s, ptr %table, ptr %profile)
  ret i64 0
}
"""

IR = """
declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal i64 @now() {
  %t = alloca { i64, i64 }
  %failed = call i32 @clock_gettime(i32 1, ptr %t)
  %seconds = load i64, ptr %t
  %rest.p = getelementptr { i64, i64 }, ptr %t, i64 0, i32 1
  %rest = load i64, ptr %rest.p
  %scaled = mul i64 %seconds, 1000000000
  %ns = add i64 %scaled, %rest
  ret i64 %ns
}

; Sleep while the word is %value; spurious returns are the caller's to expect. 128: this process only.
define internal void @sleep(ptr %word, i32 %value) {
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX_CALL, ptr %word, i32 128, i32 %value, ptr null, ptr null, i32 0)
  ret void
}

define internal void @wake(ptr %word) {
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX_CALL, ptr %word, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
  ret void
}

; The team, if nobody else has it.
define internal ptr @acquire(ptr %wanted) {
  %none = icmp eq ptr %wanted, null
  br i1 %none, label %no, label %try
try:
  %swap = cmpxchg ptr %wanted, i64 0, i64 1 acquire monotonic
  %got = extractvalue { i64, i1 } %swap, 1
  br i1 %got, label %yes, label %no
yes:
  ret ptr %wanted
no:
  ret ptr null
}

define internal void @release(ptr %team) {
  %none = icmp eq ptr %team, null
  br i1 %none, label %done, label %free
free:
  store atomic i64 0, ptr %team release, align 8
  br label %done
done:
  ret void
}

; Take chunks of this epoch's step until none is left; their number.
define internal i64 @work(ptr %team, i64 %epoch, i64 %me) {
  %threads.p = getelementptr i8, ptr %team, i64 $TEAM_THREADS
  %threads = load i64, ptr %threads.p
  %step.p = getelementptr i8, ptr %team, i64 $TEAM_STEP
  %table.p = getelementptr i8, ptr %team, i64 $TEAM_TABLE
  %profile.p = getelementptr i8, ptr %team, i64 $TEAM_PROFILE
  %shares = getelementptr i8, ptr %team, i64 $TEAM_SHARES
  %tag = and i64 %epoch, 1099511627775
  br label %victim

victim:
  %k = phi i64 [ 0, %0 ], [ %k.next, %empty ]
  %n.v = phi i64 [ 0, %0 ], [ %n, %empty ]
  %left = icmp slt i64 %k, %threads
  br i1 %left, label %share, label %done

share:
  %sum = add i64 %me, %k
  %who = urem i64 %sum, %threads
  %mine = icmp eq i64 %k, 0
  %at = mul i64 %who, $LINE
  %share.p = getelementptr i8, ptr %shares, i64 %at
  br label %look

look:
  %n = phi i64 [ %n.v, %share ], [ %n, %try ], [ %n.more, %took ]
  %word = load atomic i64, ptr %share.p acquire, align 8
  %its = lshr i64 %word, 24
  %ours = icmp eq i64 %its, %tag
  br i1 %ours, label %open, label %done
open:
  %begin = and i64 %word, 4095
  %high = lshr i64 %word, 12
  %end = and i64 %high, 4095
  %some = icmp ult i64 %begin, %end
  br i1 %some, label %try, label %empty
empty:
  %k.next = add i64 %k, 1
  br label %victim
try:
  %front = add i64 %word, 1
  %back = sub i64 %word, 4096
  %new = select i1 %mine, i64 %front, i64 %back
  %last = sub i64 %end, 1
  %which = select i1 %mine, i64 %begin, i64 %last
  %swap = cmpxchg ptr %share.p, i64 %word, i64 %new acq_rel monotonic
  %ok = extractvalue { i64, i1 } %swap, 1
  br i1 %ok, label %took, label %look

took:
  %s = load atomic ptr, ptr %step.p monotonic, align 8
  %table = load atomic ptr, ptr %table.p monotonic, align 8
  %profile = load atomic ptr, ptr %profile.p monotonic, align 8
  %units.p = getelementptr %Step, ptr %s, i64 0, i32 2
  %units = load i64, ptr %units.p
  %chunk.p = getelementptr %Step, ptr %s, i64 0, i32 3
  %chunk = load i64, ptr %chunk.p
  %lo = mul i64 %which, %chunk
  %lo.next = add i64 %lo, %chunk
  %over = icmp sgt i64 %lo.next, %units
  %hi = select i1 %over, i64 %units, i64 %lo.next
  call void @units(ptr %s, ptr %table, ptr %profile, i64 %lo, i64 %hi, i64 %me)
  %n.more = add i64 %n, 1
  br label %look

done:
  %result = phi i64 [ %n.v, %victim ], [ %n, %look ]
  ret i64 %result
}

; Wait until the chunks that helpers are at are done. The top bit of the word says that somebody sleeps.
define internal void @await(ptr %left.p) {
  br label %spin
spin:
  %i = phi i64 [ 0, %0 ], [ %i.next, %again ]
  %seen = load atomic i32, ptr %left.p acquire, align 4
  %over = icmp eq i32 %seen, 0
  br i1 %over, label %done, label %again
again:
  $PAUSE
  %i.next = add i64 %i, 1
  %enough = icmp eq i64 %i.next, $AWAIT_SPINS
  br i1 %enough, label %tell, label %spin
tell:
  %told = atomicrmw or ptr %left.p, i32 -2147483648 seq_cst
  br label %check
check:
  %word = load atomic i32, ptr %left.p acquire, align 4
  %count = and i32 %word, 2147483647
  %none = icmp eq i32 %count, 0
  br i1 %none, label %done, label %rest
rest:
  call void @sleep(ptr %left.p, i32 %word)
  br label %check
done:
  ret void
}

; Whether the step is better shared out, by what it knows.
define internal i1 @chooses(ptr %s) {
  %alone.p = getelementptr %Step, ptr %s, i64 0, i32 4
  %alone = load i64, ptr %alone.p
  %shared.p = getelementptr %Step, ptr %s, i64 0, i32 5
  %shared = load i64, ptr %shared.p
  %runs.p = getelementptr %Step, ptr %s, i64 0, i32 6
  %runs = load i64, ptr %runs.p
  %interval.p = getelementptr %Step, ptr %s, i64 0, i32 7
  %interval = load i64, ptr %interval.p
  %prefers = icmp sle i64 %shared, %alone
  %probes = icmp sge i64 %runs, %interval
  %quarter = lshr i64 %alone, 2
  %most = sub i64 %alone, %quarter
  %clear = icmp sle i64 %shared, %most
  %long = icmp sgt i64 %alone, $LONG_NS
  %certain = and i1 %clear, %long
  %uncertain = xor i1 %certain, true
  %other = and i1 %probes, %uncertain
  %choice = xor i1 %prefers, %other
  ret i1 %choice
}

; The step took %took nanoseconds one way or the other. What is tried goes into its mean by half, what is usual by an
; eighth, and never as more than twice the mean: waits for a processor say little of the step.
define internal void @learns(ptr %s, i64 %took, i1 %was.shared) {
  %alone.p = getelementptr %Step, ptr %s, i64 0, i32 4
  %shared.p = getelementptr %Step, ptr %s, i64 0, i32 5
  %runs.p = getelementptr %Step, ptr %s, i64 0, i32 6
  %interval.p = getelementptr %Step, ptr %s, i64 0, i32 7
  %alone = load i64, ptr %alone.p
  %shared = load i64, ptr %shared.p
  %prefers = icmp sle i64 %shared, %alone
  %mean.p = select i1 %was.shared, ptr %shared.p, ptr %alone.p
  %mean = select i1 %was.shared, i64 %shared, i64 %alone
  %twice = shl i64 %mean, 1
  %far = icmp sgt i64 %took, %twice
  %bounded = select i1 %far, i64 %twice, i64 %took
  %apart = sub i64 %bounded, %mean
  %tried = xor i1 %prefers, %was.shared
  %slowly = select i1 %tried, i64 1, i64 3
  %part = ashr i64 %apart, %slowly
  %mean.next = add i64 %mean, %part
  store i64 %mean.next, ptr %mean.p
  %alone.now = load i64, ptr %alone.p
  %shared.now = load i64, ptr %shared.p
  %prefers.now = icmp sle i64 %shared.now, %alone.now
  %runs = load i64, ptr %runs.p
  %interval = load i64, ptr %interval.p
  %runs.next = add i64 %runs, 1
  %end = add i64 %interval, $PROBE
  %probed = icmp sge i64 %runs.next, %end
  %changed = xor i1 %prefers, %prefers.now
  %anew = or i1 %probed, %changed
  %runs.kept = select i1 %anew, i64 0, i64 %runs.next
  store i64 %runs.kept, ptr %runs.p
  %doubled = shl i64 %interval, 1
  %over = icmp sgt i64 %doubled, $MOST_INTERVAL
  %longer = select i1 %over, i64 $MOST_INTERVAL, i64 %doubled
  %grown = select i1 %probed, i64 %longer, i64 %interval
  %interval.next = select i1 %changed, i64 $INTERVAL, i64 %grown
  store i64 %interval.next, ptr %interval.p
  ret void
}

; Run a step, shared out if %share and that is the better way; what it took one thread, or would have, in nanoseconds.
define internal i64 @measured(ptr %team, ptr %s, ptr %table, i1 %share, ptr %profile) {
  %t0 = call i64 @now()
  br i1 %share, label %may, label %single

single:
  call void @alone(ptr %s, ptr %table, ptr %profile)
  %t.single = call i64 @now()
  %took.single = sub i64 %t.single, %t0
  ret i64 %took.single

may:
  %penalty.p = getelementptr i8, ptr %team, i64 $TEAM_PENALTY
  %penalty = load i64, ptr %penalty.p
  %usual.p = getelementptr %Step, ptr %s, i64 0, i32 4
  %usual = load i64, ptr %usual.p
  %owing = icmp sgt i64 %penalty, %usual
  br i1 %owing, label %pay, label %ask

ask:
  %shares = call i1 @chooses(ptr %s)
  br i1 %shares, label %publish, label %keep

keep:
  call void @alone(ptr %s, ptr %table, ptr %profile)
  %t.keep = call i64 @now()
  %took.keep = sub i64 %t.keep, %t0
  call void @learns(ptr %s, i64 %took.keep, i1 false)
  ret i64 %took.keep

pay:
  call void @alone(ptr %s, ptr %table, ptr %profile)
  %t.pay = call i64 @now()
  %took.pay = sub i64 %t.pay, %t0
  %paid = sub i64 %penalty, %took.pay
  store i64 %paid, ptr %penalty.p
  ret i64 %took.pay

publish:
  %units.p = getelementptr %Step, ptr %s, i64 0, i32 2
  %units = load i64, ptr %units.p
  %chunk.p = getelementptr %Step, ptr %s, i64 0, i32 3
  %chunk = load i64, ptr %chunk.p
  %over = add i64 %units, %chunk
  %over.less = sub i64 %over, 1
  %chunks = udiv i64 %over.less, %chunk
  %chunks.32 = trunc i64 %chunks to i32
  %threads.p = getelementptr i8, ptr %team, i64 $TEAM_THREADS
  %threads = load i64, ptr %threads.p
  %epoch.p = getelementptr i8, ptr %team, i64 $TEAM_EPOCH
  %epoch.old = load atomic i64, ptr %epoch.p monotonic, align 8
  %epoch = add i64 %epoch.old, 1
  %tag = shl i64 %epoch, 24
  %step.p = getelementptr i8, ptr %team, i64 $TEAM_STEP
  store atomic ptr %s, ptr %step.p monotonic, align 8
  %table.p = getelementptr i8, ptr %team, i64 $TEAM_TABLE
  store atomic ptr %table, ptr %table.p monotonic, align 8
  %profile.p = getelementptr i8, ptr %team, i64 $TEAM_PROFILE
  store atomic ptr %profile, ptr %profile.p monotonic, align 8
  %left.p = getelementptr i8, ptr %team, i64 $TEAM_LEFT
  store atomic i32 %chunks.32, ptr %left.p monotonic, align 4
  %lots = getelementptr i8, ptr %team, i64 $TEAM_SHARES
  br label %give

give:
  %t = phi i64 [ 0, %publish ], [ %t.next, %give ]
  %begin = phi i64 [ 0, %publish ], [ %end, %give ]
  %t.next = add i64 %t, 1
  %scaled = mul i64 %t.next, %chunks
  %end = udiv i64 %scaled, %threads
  %end.high = shl i64 %end, 12
  %range = or i64 %end.high, %begin
  %word = or i64 %tag, %range
  %at = mul i64 %t, $LINE
  %share.p = getelementptr i8, ptr %lots, i64 %at
  store atomic i64 %word, ptr %share.p release, align 8
  %all = icmp eq i64 %t.next, %threads
  br i1 %all, label %call, label %give

call:
  store atomic i64 %epoch, ptr %epoch.p seq_cst, align 8
  %sleepers.p = getelementptr i8, ptr %team, i64 $TEAM_SLEEPERS
  %sleepers = load atomic i32, ptr %sleepers.p seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %ring, label %begin.work

ring:
  %cpu.p = getelementptr i8, ptr %team, i64 $TEAM_CPU
  %cpu = call i32 @sched_getcpu()
  store atomic i32 %cpu, ptr %cpu.p monotonic, align 4
  store atomic i32 0, ptr %sleepers.p monotonic, align 4
  %bell.p = getelementptr i8, ptr %team, i64 $TEAM_BELL
  %rung = atomicrmw add ptr %bell.p, i32 1 seq_cst
  call void @wake(ptr %bell.p)
  br label %begin.work

begin.work:
  %t.begin = call i64 @now()
  %own = call i64 @work(ptr %team, i64 %epoch, i64 0)
  %t1 = call i64 @now()
  %busy = sub i64 %t1, %t.begin
  %own.32 = trunc i64 %own to i32
  %before = atomicrmw sub ptr %left.p, i32 %own.32 acq_rel
  %settled = icmp eq i32 %before, %own.32
  br i1 %settled, label %judge, label %wait

wait:
  call void @await(ptr %left.p)
  br label %judge

judge:
  ; A thread that got to no chunk of its own (it lost its processor) has measured nothing.
  %measured = icmp ne i64 %own, 0
  br i1 %measured, label %compare, label %unknown

unknown:
  ret i64 9223372036854775807

compare:
  %t2 = call i64 @now()
  %took = sub i64 %t2, %t0
  call void @learns(ptr %s, i64 %took, i1 true)
  %product = mul i64 %busy, %chunks
  %one = udiv i64 %product, %own
  %gain = sub i64 %one, %took
  %collided.p = getelementptr i8, ptr %team, i64 $TEAM_COLLIDED
  %collided = load atomic i32, ptr %collided.p monotonic, align 4
  %collision = icmp ne i32 %collided, 0
  br i1 %collision, label %forgive, label %settle
forgive:
  store atomic i32 0, ptr %collided.p monotonic, align 4
  br label %settle
settle:
  %won = phi i64 [ %gain, %compare ], [ -$COLLISION_NS, %forgive ]
  %streak.p = getelementptr i8, ptr %team, i64 $TEAM_STREAK
  %streak = load i64, ptr %streak.p
  %owed.p = getelementptr i8, ptr %team, i64 $TEAM_OWED
  %owed = load i64, ptr %owed.p
  %eighth = lshr i64 %one, 3
  %small = icmp ult i64 %eighth, $LOSS_NS
  %most = select i1 %small, i64 $LOSS_NS, i64 %eighth
  %bound = sub i64 0, %most
  %slower = icmp slt i64 %won, %bound
  %bad = or i1 %slower, %collision
  br i1 %bad, label %lost, label %fine

lost:
  %loss = sub i64 0, %won
  %owed.more = add i64 %owed, %loss
  store i64 %owed.more, ptr %owed.p
  %price = mul i64 %loss, $PAY_BACK
  %doubled = shl i64 %price, %streak
  store i64 %doubled, ptr %penalty.p
  ; Helpers that took nothing, rung in vain, did no worse than that.
  %nothing = icmp eq i64 %own, %chunks
  %grows = xor i1 %nothing, true
  %bad.more = or i1 %grows, %collision
  %one.more = zext i1 %bad.more to i64
  %streak.next = add i64 %streak, %one.more
  %many = icmp sgt i64 %streak.next, $MOST_DOUBLINGS
  %streak.kept = select i1 %many, i64 $MOST_DOUBLINGS, i64 %streak.next
  store i64 %streak.kept, ptr %streak.p
  ret i64 %one

fine:
  %rest = sub i64 %owed, %won
  %even = icmp slt i64 %rest, 1
  %rest.kept = select i1 %even, i64 0, i64 %rest
  %streak.now = select i1 %even, i64 0, i64 %streak
  %penalty.now = load i64, ptr %penalty.p
  %penalty.kept = select i1 %even, i64 0, i64 %penalty.now
  store i64 %penalty.kept, ptr %penalty.p
  store i64 %rest.kept, ptr %owed.p
  store i64 %streak.now, ptr %streak.p
  ret i64 %one
}

; Keep this thread off a processor, of those in the set %may; whether there is another one.
define internal i1 @leaves(i32 %cpu, ptr %may) {
  %set = alloca [16 x i64]
  %whole = load [16 x i64], ptr %may
  store [16 x i64] %whole, ptr %set
  %known = icmp ult i32 %cpu, 1024
  br i1 %known, label %strike, label %no
strike:
  %word = lshr i32 %cpu, 6
  %word.p = getelementptr i64, ptr %set, i32 %word
  %low = and i32 %cpu, 63
  %shift = zext i32 %low to i64
  %bit = shl i64 1, %shift
  %rest = xor i64 %bit, -1
  %old = load i64, ptr %word.p
  %new = and i64 %old, %rest
  store i64 %new, ptr %word.p
  ; An empty set is refused.
  %refused = call i32 @sched_setaffinity(i32 0, i64 128, ptr %set)
  %moved = icmp eq i32 %refused, 0
  ret i1 %moved
no:
  ret i1 false
}

; A helper's life. Its argument is the team and its own number.
define ptr @wengert_helper(ptr %arg) {
  %team = load ptr, ptr %arg
  %me.p = getelementptr i8, ptr %arg, i64 8
  %me = load i64, ptr %me.p
  %epoch.p = getelementptr i8, ptr %team, i64 $TEAM_EPOCH
  %left.p = getelementptr i8, ptr %team, i64 $TEAM_LEFT
  %bell.p = getelementptr i8, ptr %team, i64 $TEAM_BELL
  %sleepers.p = getelementptr i8, ptr %team, i64 $TEAM_SLEEPERS
  %quit.p = getelementptr i8, ptr %team, i64 $TEAM_QUIT
  %cpu.p = getelementptr i8, ptr %team, i64 $TEAM_CPU
  %collided.p = getelementptr i8, ptr %team, i64 $TEAM_COLLIDED
  %mode = call i64 @default_mode()
  %may = alloca [16 x i64]
  store [16 x i64] zeroinitializer, ptr %may
  %got = call i32 @sched_getaffinity(i32 0, i64 128, ptr %may)
  br label %idle

idle:
  %seen = phi i64 [ 0, %0 ], [ %epoch, %worked ], [ %epoch, %told ], [ %past, %up ]
  %since = call i64 @now()
  br label %spin

spin:
  %i = phi i64 [ 0, %idle ], [ %i.next, %again ], [ 0, %still ]
  %epoch = load atomic i64, ptr %epoch.p acquire, align 8
  %new = icmp ne i64 %epoch, %seen
  br i1 %new, label %go, label %again
again:
  $PAUSE
  %i.next = add i64 %i, 1
  %look = icmp eq i64 %i.next, 64
  br i1 %look, label %watch, label %spin
watch:
  %leave = load atomic i32, ptr %quit.p monotonic, align 4
  %leaving = icmp ne i32 %leave, 0
  br i1 %leaving, label %quit, label %time
time:
  %now = call i64 @now()
  %idled = sub i64 %now, %since
  %long = icmp sgt i64 %idled, $SPIN_NS
  br i1 %long, label %down, label %still
still:
  br label %spin

down:
  %past = phi i64 [ %seen, %time ], [ %epoch.now, %collide ]
  %bell = load atomic i32, ptr %bell.p acquire, align 4
  %counted = atomicrmw add ptr %sleepers.p, i32 1 seq_cst
  %epoch.last = load atomic i64, ptr %epoch.p seq_cst, align 8
  %same = icmp eq i64 %epoch.last, %past
  br i1 %same, label %sure, label %up
sure:
  %leave.last = load atomic i32, ptr %quit.p seq_cst, align 4
  %staying = icmp eq i32 %leave.last, 0
  br i1 %staying, label %rest, label %quit
rest:
  call void @sleep(ptr %bell.p, i32 %bell)
  %here = call i32 @sched_getcpu()
  %there = load atomic i32, ptr %cpu.p monotonic, align 4
  %in.the.way = icmp eq i32 %here, %there
  br i1 %in.the.way, label %collide, label %up
collide:
  %epoch.now = load atomic i64, ptr %epoch.p acquire, align 8
  store atomic i32 1, ptr %collided.p monotonic, align 4
  %moved = call i1 @leaves(i32 %here, ptr %may)
  br i1 %moved, label %up, label %down
up:
  br label %idle

go:
  %n = call i64 @work(ptr %team, i64 %epoch, i64 %me)
  %some = icmp ne i64 %n, 0
  br i1 %some, label %tell, label %worked
tell:
  %n.32 = trunc i64 %n to i32
  %before = atomicrmw sub ptr %left.p, i32 %n.32 acq_rel
  %after = sub i32 %before, %n.32
  %awaited = icmp eq i32 %after, -2147483648
  br i1 %awaited, label %rouse, label %told
rouse:
  call void @wake(ptr %left.p)
  br label %told
told:
  br label %idle
worked:
  br label %idle

quit:
  ret ptr null
}

; Make all helpers of a team return.
define i64 @wengert_dismiss(ptr %team) {
  %quit.p = getelementptr i8, ptr %team, i64 $TEAM_QUIT
  store atomic i32 1, ptr %quit.p seq_cst, align 4
  %bell.p = getelementptr i8, ptr %team, i64 $TEAM_BELL
  %rung = atomicrmw add ptr %bell.p, i32 1 seq_cst
  call void @wake(ptr %bell.p)
  ret i64 0
}
"""
