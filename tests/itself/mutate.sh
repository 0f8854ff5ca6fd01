#!/bin/bash
# mutate.sh - tests/mutate itself: which mutants it makes of a source, and what
# it says of those that are noticed, are not, are the same, or are listed. It is
# played on a tree of its own: one source, one test, a Makefile.
set -u
cd "$(dirname "$0")/../.." || exit 1
if ! command -v python3 >/dev/null 2>&1; then
    echo 'skipped: no python3 (apt-get install python3)'
    echo 'mutate: 0 passed, 0 failed, 1 skipped'
    exit 0
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
. tests/lib/tally.bash
tree=$tmp/tree
mkdir -p "$tree/src/part" "$tree/tests/unit" "$tree/tools/bridge"
cp -r tests/mutate "$tree/tests"
: >"$tree/tests/mutate/survivors"

# makes WHAT LINE... - of the source from stdin: exactly these mutants
makes() {
    local what=$1
    shift
    cat >"$tree/src/part/one.c"
    "$tree/tests/mutate/run" --show >"$tmp/out" 2>&1
    printf '%s\n' "$@" | sed 's/^/src\/part\/one.c:/' | sort |
        diff - <(sort "$tmp/out") >"$tmp/diff"
    report $? "$what"
}

makes 'comments, strings and what the preprocessor reads are left alone' \
    'f:const:1 9: "7" -> "8"' 'f:arith:1 9: "+" -> "-"' <<'E2'
/* if (a < b) return 1; */
#define MORE(a) \
    ((a) + 1 < 2)
#include "x < y.h" /* a comment that
    goes on: a < 1 */
// a && b \
   c + 1
const char *f(void) {
    return at("a < b; /* c + 1 */" + 7, '<', '\'', "\" && 1");
}
E2
makes 'operators are exchanged, and conditions negated' \
    'f:rel:1 2: "<" -> "<="' 'f:rel:2 2: "!=" -> "=="' \
    'f:logic:1 2: "&&" -> "||"' \
    'f:negate:1 2: "a < *b && -a != a" -> "!(a < *b && -a != a)"' \
    'f:return:1 3: "return a - *b;" -> ";"' 'f:arith:1 3: "-" -> "+"' \
    'f:not:1 4: "!" -> ""' <<'E2'
int f(int a, int *b) {
    if (a < *b && -a != a)
        return a - *b;
    return !a;
}
E2
makes 'what is negative comes nearer to 0, as it may be but a mark' \
    'f:const:2 2: "1" -> "0"' 'f:const:1 2: "2" -> "3"' \
    'f:negate:1 2: "a - 2" -> "!(a - 2)"' \
    'f:arith:1 2: "-" -> "+"' 'f:return:1 2: "return -1;" -> ";"' <<'E2'
int f(int a) {
    if (a - 2) return -1;
    return a;
}
E2
makes 'calls, stores and jumps are left out, declarations are not' \
    'f:call:1 4: "g(a);" -> ";"' 'f:call:2 5: "(void)h(a);" -> ";"' \
    'f:store:1 6: "s->x = i;" -> ";"' 'f:jump:1 9: "continue;" -> ";"' \
    'f:negate:1 7: "a" -> "!(a)"' 'f:negate:2 8: "i" -> "!(i)"' \
    'f:const:1 3: "0" -> "1"' <<'E2'
void f(int a, struct s *s)
{
    int i = 0, k = h(a);
    g(a);
    (void)h(a);
    s->x = i;
    while (a) {
        if (i)
            continue;
    }
}
E2
makes 'orders are weakened, fences removed, stores swapped' \
    'f:order:1 3: "shm_store_release" -> "shm_store"' \
    'f:call:1 2: "shm_store(&s->a, b);" -> ";"' \
    'f:call:2 3: "shm_store_release(&s->b, b);" -> ";"' \
    'f:fence:1 4: "shm_fence();" -> ";"' \
    "f:swap:1 2: \"shm_store(&s->a, b); shm_store_release(&s->b, b);\" -> \
\"shm_store_release(&s->b, b); shm_store(&s->a, b);\"" <<'E2'
void f(struct s *s, int b) {
    shm_store(&s->a, b);
    shm_store_release(&s->b, b);
    shm_fence();
}
E2
"$tree/tests/mutate/run" --count >"$tmp/out" 2>&1
grep -qx 5 "$tmp/out"
report $? 'they are counted'
"$tree/tests/mutate/run" --list --seed 5 --sample 3 >"$tmp/once" 2>&1
"$tree/tests/mutate/run" --list --seed 5 --sample 3 >"$tmp/out" 2>&1
[ "$(wc -l <"$tmp/out")" = 3 ] && cmp -s "$tmp/once" "$tmp/out"
report $? 'the same seed draws the same'
"$tree/tests/mutate/run" --list >"$tmp/once" 2>&1
sed -i '1i static int before(int a) { return a + 1; }\n' "$tree/src/part/one.c"
"$tree/tests/mutate/run" --list --only :f: >"$tmp/out" 2>&1
cmp -s "$tmp/once" "$tmp/out"
report $? 'a name outlives what is written before it'

# --- played ---

cat >"$tree/tests/mutate/table.py" <<'E2'
ABOUT, WITH_BRIDGE, DEAR = {}, (), ()
LAST, LOOPED, PAIRED, QUICK, RACES, STILL = (), (), (), (), {}, ()
OF = {'src/part': 'one lines'}
MORE = {'lines': (['tsan/tests/unit/check_one'], ['tests/lines.sh'])}
E2
# a program for the thread sanitizer without its lines would kill each of them
cat >"$tree/tests/lines.sh" <<'E2'
#!/bin/sh
readelf -S "$BUILD/tsan/tests/unit/check_one" | grep -q debug_line
E2
chmod +x "$tree/tests/lines.sh"
cat >"$tree/Makefile" <<'E2'
BUILD = build
played: $(PLAYED)
check-made: $(BUILD)/debug/tests/unit/check_one
check-run: check-made
	@$(BUILD)/debug/tests/unit/check_one more || \
	    { echo "FAIL $$(cat tests/more)  0 passed  1 failed"; exit 1; }
define kind
$(BUILD)/$1/%.o: %.c
	@mkdir -p $$(@D)
	cc $2 -O1 -Isrc -c $$< -o $$@
$(BUILD)/$1/libenq.a: $(BUILD)/$1/src/part/one.o
	ar rcs $$@ $$^
$(BUILD)/$1/tests/unit/check_one: $(BUILD)/$1/tests/unit/check_one.o \
    $(BUILD)/$1/libenq.a
	cc $2 -o $$@ $$^
endef
$(eval $(call kind,debug,))
$(eval $(call kind,asan,-fsanitize=address))
$(eval $(call kind,tsan,-g))
E2
cat >"$tree/src/part/one.c" <<'E2'
int clip(int a);
int clip(int a)
{
    if (a > 9)
        a = 10;
    for (volatile unsigned long i = 0; 0 < 1 && i != 3; i++)
        a++;
    return a;
}
E2
cat >"$tree/tests/unit/check_one.c" <<'E2'
int clip(int a);
int main(int n, char **v)
{
    return n > 1 ? clip(9) != 12 : clip(20) != 13 || clip(5) != 8;
}
E2

# says STATUS WHAT TEXT MUTANT... - it ends so and says so
says() {
    local status=$1 what=$2 text=$3 got
    shift 3
    (cd "$tree" && unset MAKEFLAGS MAKELEVEL BUILD &&
        tests/mutate/run --jobs 1 "$@") >"$tmp/out" 2>&1
    got=$?
    [ "$got" = "$status" ] && grep -qE -- "$text" "$tmp/out"
    report $? "$what"
}

one=src/part/one.c:clip
says 0 'one that a test notices is killed' "^killed .*$one:const:2 .* one fails" \
    $one:const:2
says 1 'one that no test notices fails the run' "^FAIL $one:rel:1 survives" \
    $one:rel:1
echo some/suite >"$tree/tests/more"
says 0 'one that only the whole check notices is killed by that' \
    "^killed .*$one:rel:1 .* make check: some/suite fails" --whole $one:rel:1
echo wire/npm >"$tree/tests/more"
says 1 'one that only who needs a registry would notice survives' \
    "^FAIL $one:rel:1 survives" --whole $one:rel:1
says 0 'one of the same object code is no mutant' "^same .*$one:rel:2 " \
    $one:rel:2
says 0 'one that does not end is killed' "^killed .*$one:arith:1 .* one(-asan)? hangs" \
    $one:arith:1
printf '# a list\n%s\n    9 is not asked for\n' $one:rel:1 \
    >"$tree/tests/mutate/survivors"
says 0 'one that is listed is explained' '0 killed, 1 survive, of which 1' \
    $one:rel:1
printf '%s\n    nobody asks\n' "$one:*" >"$tree/tests/mutate/survivors"
says 0 'one is explained where all of its function is' \
    '0 killed, 1 survive, of which 1' $one:rel:1
says 0 'one that is killed is not stale where all of its function is listed' \
    '^1 identical, 0 do not compile; 1 killed, 0 survive' $one:const:2 $one:rel:2
! grep -q STALE "$tmp/out"
report $? 'nor is it said to be'
printf '%s\n    nobody asks\n' src/part/one.c:cut:* \
    >"$tree/tests/mutate/survivors"
says 1 'a function that is listed and has no mutant fails the run' \
    '^FAIL src/part/one.c:cut:\* is in the list' $one:rel:2
printf '%s\n    9 is not asked for\n' $one:rel:1 >"$tree/tests/mutate/survivors"
printf '%s\n    why\n' $one:const:2 >>"$tree/tests/mutate/survivors"
says 0 'one that is listed and killed is stale' "^STALE $one:const:2 " \
    $one:const:2
printf '%s\n    why\n' $one:gone:1 >>"$tree/tests/mutate/survivors"
says 1 'one that is listed and no mutant fails the run' "^FAIL $one:gone:1 " \
    $one:rel:2
printf '%s\n' $one:rel:3 >"$tree/tests/mutate/survivors"
says 1 'one that is listed without a reason fails the run' \
    "nothing is said of $one:rel:3" $one:rel:2
: >"$tree/tests/mutate/survivors"
echo some/suite >"$tree/tests/more"
sed -i 's/!= 12/!= 11/' "$tree/tests/unit/check_one.c"
says 1 'a suite that fails in the whole check without a mutant kills none' \
    "^UNSOUND some/suite " --whole $one:rel:1
sed -i 's/!= 13/!= 14/' "$tree/tests/unit/check_one.c"
says 1 'a test that fails without a mutant kills none' '^UNSOUND one ' \
    $one:const:2
sum_up mutate
