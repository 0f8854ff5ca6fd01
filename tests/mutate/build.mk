# build.mk - `make played PLAYED='FILE...'`: the programs that tests/mutate
# plays, as one goal: several are several makes, one after the other.
.PHONY: played
played: $(patsubst $(CURDIR)/%,%,$(abspath $(PLAYED)))
