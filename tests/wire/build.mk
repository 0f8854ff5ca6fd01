# build.mk - the transcripts need no program of their own, but the bridge and
# lockctl in another profile as well; and the bridge with its crash points, and
# with the thread sanitizer.

parts_more += $(BUILD)/asan/enq-bridge $(BUILD)/asan/lockctl
parts_more += $(BUILD)/crash/enq-bridge $(BUILD)/tsan/enq-bridge
