# build.mk - `make BUG=NAME`: a tree with that bug of tests/bugs, and the test
# that catches it, in build/bug-NAME (names: tests/bugs/bugs.sh --list).
# What it begins with are the objects of all the tests.

ifneq ($(BUG),)
.PHONY: bug
.DEFAULT_GOAL := bug
bug: $(call in,debug,$(runners) $(units)) $(BUILD)/sim/sim-run \
    $(parts:%=$(BUILD)/%-run)
	@BUILD=$(BUILD) tests/bugs/bugs.sh --build '$(BUG)'
endif
