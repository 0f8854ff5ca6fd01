# libenq - build, test, install. `make help` lists what there is.
#
# Profiles live side by side in build/<profile>/ and differ in flags only:
# release (the default), debug, asan, tsan, cov, crash. Header dependencies
# come from the compiler (-MMD); parts that do not exist are left out.
#
# To set from outside: CC CFLAGS CPPFLAGS LDFLAGS LTO, WERROR= (warnings stay
# warnings), V=1 (show commands), DESTDIR PREFIX LIBDIR INCLUDEDIR MANDIR.

SHELL := /bin/sh
.DELETE_ON_ERROR:
.SUFFIXES:

jobs := -j$(shell nproc 2>/dev/null || echo 2)

# Several goals at once (`make clean check lint`) run one after the other,
# each of them in parallel within itself.
ifneq ($(word 2,$(MAKECMDGOALS)),)

.NOTPARALLEL:
.PHONY: $(MAKECMDGOALS)
$(MAKECMDGOALS):
	@+$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,$(jobs)) $@

else

ifeq ($(MAKELEVEL),0)
MAKEFLAGS += $(jobs)
endif
MAKEFLAGS += --no-print-directory

BUILD = build
# One name for one place: the dependencies of an object that was made under
# another name are not found again.
override BUILD := $(patsubst $(CURDIR)/%,%,$(abspath $(BUILD)))
CLANG = clang
WERROR = -Werror
PREFIX = /usr/local
INCLUDEDIR = $(PREFIX)/include
LIBDIR = $(PREFIX)/lib
MANDIR = $(PREFIX)/share/man
COMPDIR = $(PREFIX)/share/bash-completion/completions

version = $(shell sed -n 's/^\#define ENQ_VERSION_$1 //p' include/enq.h)
ABI := $(call version,MAJOR)
VERSION := $(ABI).$(call version,MINOR).$(call version,PATCH)

PROFILES := release debug asan tsan cov crash

# --- flags -------------------------------------------------------------------

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
BASE := -std=c11 -D_GNU_SOURCE $(WARN) -fvisibility=hidden -fPIC -pthread
HARD := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong
SANE := -O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=all \
    -DENQ_DEBUG -DENQ_POINTS

cc_release = $(CC)
cc_debug = $(CC)
cc_asan = $(CLANG)
cc_tsan = $(CLANG)
cc_cov = $(CC)
cc_crash = $(CC)

flags_release := -O2 -g $(HARD)
flags_debug := -O1 -g -DENQ_DEBUG -DENQ_POINTS
flags_asan := $(SANE) -fsanitize=address,undefined
flags_tsan := $(SANE) -fsanitize=thread
flags_cov := -O0 -g -DENQ_DEBUG -DENQ_POINTS --coverage
flags_crash := -O2 -g -DENQ_POINTS -DENQ_STORE_POINTS -DENQ_VISITS

link_release := -pie -Wl,-z,relro,-z,now
link_asan := -fsanitize=address,undefined
link_tsan := -fsanitize=thread
link_cov := --coverage

# The library's fast path has no arrays to guard: -strong costs it 4 % there.
# Two stores must not become one load of both right after (-tree-slp-vectorize):
# the processor has to wait until they have left for the cache (3 %).
# gcc optimises the released library as a whole when its objects are joined
# (a tenth off the uncontended pair). LTO= turns that off.
LTO := $(if $(findstring Free Software,$(shell $(CC) --version 2>/dev/null)),\
    -flto=auto)
join = ld -r
lib_release = -fstack-protector -fno-tree-slp-vectorize $(LTO)
$(BUILD)/release/src/%.o: more_flags = $(lib_release)
# So is the bridge, with what it shares with the library.
bridge_release = $(LTO)
$(BUILD)/release/enq.o: join = $(if $(LTO),$(CC) -O2 -g -r $(CFLAGS) $(LTO) \
    -flinker-output=nolto-rel,ld -r)

# What a part of the tree may include: tools and bench see enq.h only.
see_src := -Iinclude -Isrc
see_tools := -Iinclude
see_bench := -Iinclude -Ibench
see_tests := -Iinclude -Isrc -Itests -Itests/lib -Itools

# The peers of enq-bench that this machine has, seen as the sources see them
# (\43 is a number sign), as what they need from the linker.
has = \43if __has_include(<$1>)\n$2\n\43endif\n
peer_libs := $(strip $(shell printf '$(call has,db.h,-ldb)$(call \
    has,lmdb.h,-llmdb)$(call has,hiredis/hiredis.h,-lhiredis)$(call \
    has,postgresql/libpq-fe.h,-lpq)' | \
    $(CC) $(CPPFLAGS) -E -P -xc - 2>/dev/null))

LIBS := -luuid -pthread
SHARED := -shared -Wl,-soname,libenq.so.$(ABI) -Wl,-z,nodelete \
    -Wl,-z,relro,-z,now -Wl,-z,defs -Wl,--version-script=src/enq.map

# --- what there is -----------------------------------------------------------

lib_c := $(wildcard src/*/*.c)
lockctl_c := $(wildcard tools/lockctl/*.c)
demo_c := $(wildcard tools/demo/*.c)
bridge_c := $(wildcard tools/bridge/*.c)
# The protocol's pure half, which library and bridge share.
wire_c := $(wildcard src/wire/*.c)
bench_c := $(wildcard bench/*/*.c)
peer_c := $(wildcard bench/peers/*.c)
testlib_c := $(wildcard tests/lib/*.c)
spec_c := $(wildcard tests/spec/*.c)
model_c := $(wildcard tests/model/*.c)
unit_c := $(wildcard tests/unit/check_*.c)
all_c := $(lib_c) $(lockctl_c) $(demo_c) $(bridge_c) $(bench_c) $(testlib_c) $(spec_c) \
    $(model_c) $(unit_c)

tools := $(if $(lockctl_c),lockctl) $(if $(demo_c),enq-demo) \
    $(if $(bench_c),enq-bench) $(if $(bridge_c),enq-bridge)
runners := $(if $(spec_c),spec-run) $(if $(model_c),model-run)
units := $(patsubst tests/unit/%.c,tests/unit/%,$(unit_c))

# More programs of the tests, each made of one directory, as PROFILE/DIRECTORY:
# the profile is the one that it is run in. What is special about others is in
# their own build.mk, which adds to `parts_more` what the tests need built.
parts := $(foreach p,crash/crash release/step release/monkey crash/exhaust \
    crash/env crash/growth release/fuzz,$(if $(wildcard tests/$(notdir $p)/*.c),$p))
lib_of_step := static/
# It forks for each death: a program of few mappings is copied faster.
link_of_crash := -static
thread_units := $(filter %threads,$(units))

# in PROFILE, NAMES: those names as files of that profile.
in = $(addprefix $(BUILD)/$(1)/,$(2))
objs = $(patsubst %.c,$(BUILD)/$(1)/%.o,$(2))
quiet = $(if $(V),,@)
silent = $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
say = $(if $(V)$(silent),,@printf '  %-4s %s\n' $(1) $@)

.PHONY: all help demo check lint fmt tidy cov bench soak install uninstall dist
.PHONY: mutate prove hunt clean setup setup-check setup-all demo-run check-made
.PHONY: check-built check-run prove-run lint-run compiled cov-run bench-run bench-peers always $(PROFILES)

all: release ## the library and the tools, optimised (the default)

help: ## this list
	@echo 'usage: make [TARGET] [VARIABLE=VALUE]...'
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  \1 \2/p' Makefile | \
	    while read -r t text; do printf '  %-11s %s\n' "$$t" "$$text"; done

# The set of the peers found: it changes only when the set does.
$(BUILD)/peers: always
	@mkdir -p $(@D)
	@echo '$(peer_libs)' | cmp -s - $@ || echo '$(peer_libs)' >$@

# --- rules, once per profile -------------------------------------------------

define profile
$(BUILD)/$(1)/%.o: %.c Makefile
	$$(quiet)mkdir -p $$(@D)
	$$(call say,CC)
	$$(quiet)$$(cc_$(1)) $$(BASE) $$(WERROR) $$(flags_$(1)) $$(CPPFLAGS) \
	    $$(see_$$(firstword $$(subst /, ,$$<))) $$(more_flags) \
	    $$(CFLAGS) -MMD -MP -c $$< -o $$@

$(BUILD)/$(1)/enq.o: $(call objs,$(1),$(lib_c))
	$$(call say,LD)
	$$(quiet)$$(join) -o $$@ $$^

$(BUILD)/$(1)/libenq.a: $(BUILD)/$(1)/enq.o
	$$(call say,AR)
	$$(quiet)rm -f $$@ && ar rcs $$@ $$^

# What is installed, and what links to it as users do: its internal names
# cannot meet those of the program.
$(BUILD)/$(1)/static/libenq.a: $(BUILD)/$(1)/enq.o
	$$(call say,AR)
	$$(quiet)mkdir -p $$(@D) && rm -f $$@
	$$(quiet)objcopy --localize-hidden $$< $$(@D)/enq.o
	$$(quiet)ar rcs $$@ $$(@D)/enq.o

$(BUILD)/$(1)/libtest.a: $(call objs,$(1),$(testlib_c))
	$$(call say,AR)
	$$(quiet)mkdir -p $$(@D) && rm -f $$@ && ar rcs $$@ $$^

$(BUILD)/$(1)/libenq.so: $(BUILD)/$(1)/enq.o src/enq.map
	$$(call say,LD)
	$$(quiet)$$(cc_$(1)) $$(SHARED) $$(CFLAGS) $$(LDFLAGS) \
	    -o $$@ $$< $$(LIBS)

$(BUILD)/$(1)/lockctl: $(call objs,$(1),$(lockctl_c))
$(BUILD)/$(1)/enq-demo: $(call objs,$(1),$(demo_c))
$(BUILD)/$(1)/enq-bench: $(call objs,$(1),$(bench_c))
$(BUILD)/$(1)/enq-bridge: $(call objs,$(1),$(bridge_c) $(wire_c))
$(call objs,$(1),$(bridge_c)): more_flags = -Isrc $$(bridge_$(1))
$(BUILD)/$(1)/spec-run: $(call objs,$(1),$(spec_c))
$(BUILD)/$(1)/model-run: $(call objs,$(1),$(model_c))
$(call objs,$(1),$(peer_c)) $(BUILD)/$(1)/enq-bench: $(BUILD)/peers
$(BUILD)/$(1)/enq-bench: more = $$(peer_libs)
$(BUILD)/$(1)/bench/report/machine.o: more_flags = \
    -DENQ_CFLAGS='"$$(strip $$(flags_$(1)) $$(lib_$(1)) $$(CFLAGS))"'
$(call in,$(1),$(units)): %: %.o
$(call in,$(1),$(units)): more = $$(shell pkg-config --libs check)
$(BUILD)/$(1)/tests/unit/check_answers: more += -Wl,--wrap=calloc
$(BUILD)/$(1)/tests/unit/check_attach: more += -Wl,--wrap=fcntl,--wrap=fstatat,--wrap=open
$(BUILD)/$(1)/tests/unit/check_heap: more += -Wl,--wrap=realloc,--wrap=free
$(BUILD)/$(1)/tests/unit/check_deadlock: more += -Wl,--wrap=realloc
$(BUILD)/$(1)/tests/unit/check_remote_suspect: more += -Wl,--wrap=malloc
$(BUILD)/$(1)/tests/unit/check_remote_leader_threads: more += -Wl,--wrap=calloc
$(call in,$(1),$(runners) $(units)): $(BUILD)/$(1)/libtest.a
$(call in,$(1),$(filter-out spec-run,$(runners)) $(units)): \
    $(BUILD)/$(1)/libenq.a
$(call in,$(1),$(tools) spec-run): $(BUILD)/$(1)/static/libenq.a
# These start a bridge: the one beside them, the released one.
$(call in,$(1),$(runners)): | $(if $(bridge_c),$(BUILD)/$(1)/enq-bridge)
$(BUILD)/$(1)/tests/unit/check_remote_threads: | $(BUILD)/release/enq-bridge
$(BUILD)/$(1)/tests/unit/check_bridge_ask: $(BUILD)/$(1)/tools/bridge/ask.o
$(BUILD)/$(1)/tests/unit/check_bridge_peer: $(foreach o,peer table tag,$(BUILD)/$(1)/tools/bridge/$(o).o)
$(BUILD)/$(1)/tests/unit/check_bridge_reply: $(BUILD)/$(1)/tools/bridge/reply.o
$(BUILD)/$(1)/tests/unit/check_bridge_table: $(BUILD)/$(1)/tools/bridge/table.o
$(BUILD)/$(1)/tests/unit/check_bridge_tag: $(BUILD)/$(1)/tools/bridge/tag.o
$(BUILD)/$(1)/tests/unit/check_bridge_route: $(BUILD)/$(1)/tools/bridge/route.o
$(call in,$(1),$(tools) $(runners) $(units)):
	$$(call say,LD)
	$$(quiet)$$(cc_$(1)) $$(link_$(1)) $$(CFLAGS) $$(LDFLAGS) -o $$@ \
	    $$(filter %.o,$$^) $$(filter %.a,$$^) $$(more) $$(LIBS) -lm

.SECONDARY: $(call objs,$(1),$(all_c))
endef
$(foreach p,$(PROFILES),$(eval $(call profile,$(p))))

define part
$(BUILD)/$(1)/$(2)-run: $(call objs,$(1),$(wildcard tests/$(2)/*.c)) \
    $(BUILD)/$(1)/libtest.a $(BUILD)/$(1)/$(lib_of_$(2))libenq.a
	$$(call say,LD)
	$$(quiet)$$(cc_$(1)) $$(link_$(1)) $$(link_of_$(2)) $$(CFLAGS) \
	    $$(LDFLAGS) -o $$@ $$^ $$(LIBS) -lm
.SECONDARY: $(call objs,$(1),$(wildcard tests/$(2)/*.c))
endef
$(foreach p,$(parts),$(eval $(call part,$(patsubst %/,%,$(dir $p)),$(notdir $p))))
-include tests/*/build.mk

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

whole := libenq.a $(tools) $(runners) $(units)
release: $(call in,release,libenq.a static/libenq.a libenq.so $(tools))
debug: $(call in,debug,$(whole)) ## build with assertions and table checks
asan: $(call in,asan,$(whole)) ## build with address and undefined sanitizers
tsan: $(call in,tsan,$(whole)) ## build with the thread sanitizer
crash: $(call in,crash,$(whole)) ## build with the named crash points

# --- using it ----------------------------------------------------------------

# The steps after a setup are a make of their own: only then is everything
# there that the rules above need.
setup: ## install what building and the demo need (as root, by apt-get)
	@.ci/setup demo

setup-all: ## install what tests, lint and coverage need as well
	@.ci/setup all

setup-check:
	@.ci/setup check

demo: setup ## set up, build, and show the main job in some seconds
	@+$(MAKE) demo-run

demo-run: release
	@$(BUILD)/release/enq-demo $(ARGS)

check: setup-check ## set up, build, and run every test once: some minutes
	@+$(MAKE) check-run

prove: setup-check ## the counted proofs, and the tests under the sanitizers
	@+$(MAKE) prove-run

check-made: release $(call in,debug,$(runners) $(units)) \
    $(call in,tsan,$(thread_units)) $(call in,crash,$(runners)) \
    $(BUILD)/asan/spec-run $(parts:%=$(BUILD)/%-run) $(parts_more)

check-built: check-made $(call in,asan,$(runners) $(units))

check-run: check-made
	@BUILD=$(BUILD) PARTS='$(parts)' tests/run check $(ARGS)

prove-run: check-built
	@BUILD=$(BUILD) PARTS='$(parts)' tests/run prove $(ARGS)

lint: setup-all ## formatting, layers, sizes, symbols, cppcheck, gcc and clang
	@+$(MAKE) lint-run

# Both compilers see every file, whatever part of it the tests need.
compiled: release $(call in,debug,$(runners) $(units))

lint-run: release
	@+BUILD=$(BUILD) MAKE='$(MAKE)' tests/lint/run $(ARGS)

fmt: setup-all ## format the C files in place
	@find include src tools bench tests -name '*.[ch]' | \
	    xargs clang-format -i

tidy: setup-all ## clang-tidy over library, tools and bench (slow, advisory)
	@clang-tidy --quiet $(lib_c) $(lockctl_c) $(demo_c) $(bench_c) -- \
	    -std=c11 -D_GNU_SOURCE $(see_src) -Ibench

cov: setup-all ## line coverage of src/ by the tests, as build/cov/index.html
	@+$(MAKE) cov-run

cov-run: $(call in,cov,$(runners) $(units))
	@find $(BUILD)/cov -name '*.gcda' -delete
	@BUILD=$(BUILD) tests/run cov $(ARGS); status=$$?; \
	gcovr --root . --filter src/ --html-details $(BUILD)/cov/index.html \
	    --print-summary $(BUILD)/cov && exit $$status

bench: setup ## measure all, some minutes; a part: ARGS="--scenario one"
	@+$(MAKE) bench-run

bench-peers: ## install what enq-bench compares with, and build with it
	@.ci/setup bench
	@BUILD=$(BUILD) bench/npm
	@+$(MAKE) release

bench-run: release
	@BUILD=$(BUILD) bench/run $(ARGS)

soak: setup-check ## repeat check and prove until they fail
	@+$(MAKE) check-built
	@n=0; while ENQ_SOAK=1 BUILD=$(BUILD) PARTS='$(parts)' \
	    tests/run $(ARGS); do \
	    n=$$((n + 1)); echo "soak: round $$n passed"; done; exit 1

mutate: setup-check ## 200 mutants of the sources, drawn anew: who notices?
	@BUILD=$(BUILD) tests/mutate/run --sample 200 $(ARGS)

hunt: setup-check ## damaged tables, schedules, models: HUNT_SECONDS=600
	@+$(MAKE) $(BUILD)/fuzz/fuzz $(BUILD)/sim/sim-run
	@BUILD=$(BUILD) tests/hunt

clean: ## remove build/
	rm -rf $(BUILD)

dist: ## the committed tree as build/libenq-VERSION.tar.gz
	@mkdir -p $(BUILD)
	git archive --prefix=libenq-$(VERSION)/ \
	    -o $(BUILD)/libenq-$(VERSION).tar.gz HEAD

# --- installing it -----------------------------------------------------------

real := libenq.so.$(VERSION)
man1 := $(wildcard tools/*/*.1)
man3 := $(wildcard src/*/*.3)
man8 := $(wildcard tools/*/*.8)
units_of_systemd := $(wildcard tools/bridge/enq-bridge.service \
    tools/bridge/enq-bridge.socket tools/bridge/enq-space.service)
sysusers := $(if $(bridge_c),$(DESTDIR)$(PREFIX)/lib/sysusers.d/enq-bridge.conf)
completion := $(wildcard tools/lockctl/lockctl.bash)

# Every file that install makes: $(call dest,DIRECTORY,FILES)
dest = $(addprefix $(DESTDIR)$(1)/,$(notdir $(2)))
installed = $(call dest,$(INCLUDEDIR),enq.h enq_types.h) \
    $(call dest,$(LIBDIR),libenq.a $(real) libenq.so.$(ABI) libenq.so) \
    $(call dest,$(LIBDIR)/pkgconfig,enq.pc) \
    $(call dest,$(PREFIX)/bin,$(if $(lockctl_c),lockctl) \
        $(if $(bridge_c),enq-bridge)) \
    $(call dest,$(MANDIR)/man1,$(man1)) $(call dest,$(MANDIR)/man3,$(man3)) \
    $(call dest,$(MANDIR)/man8,$(man8)) $(sysusers) \
    $(call dest,$(PREFIX)/lib/systemd/system,$(units_of_systemd)) \
    $(if $(completion),$(DESTDIR)$(COMPDIR)/lockctl)

# A fresh cache lets the loader find the library; pointless in a DESTDIR. Of two
# at once one fails, as both write the same temporary file: one after the other.
ldconfig = if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ]; then \
    flock /etc/ld.so.conf ldconfig; fi

install: release ## library, header, lockctl, manual (DESTDIR, PREFIX ...)
	install -d $(sort $(dir $(installed)))
	install -m 644 include/enq.h include/enq_types.h $(DESTDIR)$(INCLUDEDIR)/
	install -m 644 $(BUILD)/release/static/libenq.a $(DESTDIR)$(LIBDIR)/
	install -m 755 $(BUILD)/release/libenq.so $(DESTDIR)$(LIBDIR)/$(real)
	ln -sf $(real) $(DESTDIR)$(LIBDIR)/libenq.so.$(ABI)
	ln -sf libenq.so.$(ABI) $(DESTDIR)$(LIBDIR)/libenq.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
	    -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	    src/enq.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/enq.pc
	$(if $(lockctl_c),install -m 755 $(BUILD)/release/lockctl \
	    $(DESTDIR)$(PREFIX)/bin/)
	$(if $(bridge_c),install -m 755 $(BUILD)/release/enq-bridge \
	    $(DESTDIR)$(PREFIX)/bin/)
	$(if $(bridge_c),install -m 644 tools/bridge/enq-bridge.sysusers \
	    $(sysusers))
	for unit in $(units_of_systemd); do sed 's|@PREFIX@|$(PREFIX)|' $$unit \
	    >$(DESTDIR)$(PREFIX)/lib/systemd/system/$${unit##*/} || exit 1; done
	$(if $(man8),install -m 644 $(man8) $(DESTDIR)$(MANDIR)/man8/)
	$(if $(man1),install -m 644 $(man1) $(DESTDIR)$(MANDIR)/man1/)
	$(if $(man3),install -m 644 $(man3) $(DESTDIR)$(MANDIR)/man3/)
	$(if $(completion),install -m 644 $(completion) \
	    $(DESTDIR)$(COMPDIR)/lockctl)
	@$(ldconfig)
	@$(if $(sysusers),echo 'For enq-bridge as a service (as root):'; \
	    echo '    systemd-sysusers    # the user and group enq'; \
	    echo '    systemctl daemon-reload'; \
	    echo '    systemctl enable --now enq-space.service' \
	    'enq-bridge.socket'; \
	    echo '    adduser USER enq    # whoever is to share the locks')

uninstall: ## remove what install made (the same variables)
	rm -f $(installed)
	@$(ldconfig)

endif
