"""Every bound of the core, one line each, with its reason."""

from typing import Final

SECOND: Final = 1_000_000  # cluster time counts microseconds
MINUTE: Final = 60 * SECOND
HOUR: Final = 3600 * SECOND

# What SQS promises its clients
RECEIVE_COUNT_MAX: Final = 10  # messages one ReceiveMessage may return
VISIBILITY_MAX_S: Final = 43_200  # a lease ends at most 12 hours after its receive
DELAY_MAX_S: Final = 900  # DelaySeconds
WAIT_MAX_S: Final = 20  # WaitTimeSeconds
RETENTION_MAX_S: Final = 1_209_600  # MessageRetentionPeriod, 14 days
MESSAGE_BYTES_MAX: Final = 1_048_576  # body and attributes of one message
IN_FLIGHT_MAX: Final = 120_000  # received and not deleted, per lane; FIFO counts parked ones too
DEDUP_WINDOW: Final = 5 * MINUTE  # one deduplication id, one message
ATTEMPT_WINDOW: Final = 5 * MINUTE  # a ReceiveRequestAttemptId is remembered this long
PURGE_INTERVAL: Final = 60 * SECOND  # PurgeQueueInProgress before this has passed
MOVE_RATE_MAX: Final = 500  # messages per second of one move task; also the rate when none is asked
MOVE_TASKS_KEPT: Final = 10  # ended move tasks that ListMessageMoveTasks still shows
SEQUENCE_BASE: Final = 10_000_000_000_000_000_000  # makes every sequence number 20 digits long

# Fair queues: who counts as noisy
NOISY_SHARE: Final = 10  # more than one part in ten of what is in flight, or of consumer time
NOISY_IN_FLIGHT: Final = 30  # and at least so many in flight
NOISY_MEMORY: Final = 5 * MINUTE  # consumer time older than this is forgotten
FAIR_LOOK_MAX: Final = 64  # noisy candidates passed over for one message

# Memory
WINDOW_MAX: Final = 1024  # headers a lane holds ahead of its cursor while it has something to hand out
WINDOW_TOTAL: Final = 262_144  # headers all windows of a shard hold together (about 64 MiB)
LOAD_MAX: Final = 512  # headers asked for at once
STRETCH_BITS: Final = 12  # a run begins anew every 4096 log positions, so that it can be found again
WAITERS_MAX: Final = 20_000  # long polls a shard keeps in its table
PEEK_MAX: Final = 100  # messages one peek shows
PEEKS_MAX: Final = 256  # peeks that wait for headers and remember how far they came
REPLIES_MAX: Final = 100_000  # replies that wait for the disk before commands are refused

# Retries
REQUEST_WINDOW: Final = MINUTE  # a request id is remembered this long: longer than any front-end goes on retrying
REQUESTS_MAX: Final = 262_144  # request ids a shard remembers (about 60 MiB); older retries are refused
ROUTE_PATIENCE: Final = 10 * SECOND  # a front-end goes on trying; a fail-over takes 1 to 3 s, clients wait 60
CALL_PATIENCE: Final = 3 * SECOND  # for one answer of a host, beyond what a long poll waits
RETRY_FIRST: Final = SECOND // 50  # before the second try; doubled for each further one
RETRY_MAX: Final = SECOND // 2  # between two tries
HOST_REST: Final = SECOND // 2  # a host that did not answer is asked last for so long
DETOURS_MAX: Final = 8  # tries without a pause between: other lanes, hints

# Time
ALARMS_STALE: Final = 1024  # out-of-date alarms that are tolerated before the heap is made anew
TIMER_STEP: Final = 50_000  # timers fire on this grid; leases are rounded up to it, never down
TICK_INTERVAL: Final = SECOND  # how often a shard looks at retention, move tasks and its idle log
TICK_WORK: Final = 1000  # records one tick may write, so that it never holds the loop for long

# Outbox
OUTBOX_IN_FLIGHT: Final = 64  # hand-overs to one shard that wait for an answer
OUTBOX_MAX: Final = 20_000  # moves that wait in one shard; then messages stay where they are
OUTBOX_RETRY: Final = SECOND  # a hand-over without answer is sent again after this

# Lanes that follow each other
FORMER_LANES_MAX: Final = 64  # lanes of a queue that are gone and whose receipts are still known to be its own
BEQUEST_ENTRIES: Final = 4096  # deduplication ids that one record hands to an heir: 192 KiB, less than a frame
SEQUENCE_GAP: Final = 1 << 32  # an heir's numbers begin so far behind its parents', which may still get dead letters

# Log
FRAME_BYTES_MAX: Final = 262_144  # a frame is closed at this size, unless one record alone is larger
FRAME_ALIGN: Final = 512  # a frame starts on a sector, so that writing it cannot tear its predecessor
SEGMENT_BYTES: Final = 67_108_864  # zero-filled before use
SPARE_LEAD: Final = 2  # so much faster than a segment is used the next one is made: then it is there in good time
SPARE_LAG_SHARE: Final = 16  # one part in so many, by which its zeros may lag before they hurry
LOBBY_BYTES_MAX: Final = 16_777_216  # of sends that wait for the next segment; more are refused
LOBBY_INTERVAL: Final = SECOND // 200  # how often it is looked whether it is there
RESERVE_BYTES: Final = 16_777_216  # left for deletes and receives when no spare segment could be made
READ_BYTES: Final = 1_048_576  # how much of a segment recovery reads at once
IDLE_AFTER: Final = SECOND // 2  # an empty frame follows the last one within a second, with room for a late tick
IDENTITY_BYTES_MAX: Final = 65_536  # of the files that say who this is and what was promised; they have some hundred
INDEX_CHUNK: Final = 64  # index entries unpacked at once, at least
INDEX_STEP_BYTES: Final = 65_536  # of entries, cut into columns, after which whoever makes an index can rest: 0.1 ms
INDEX_PACK_BYTES: Final = 16_384  # the same of columns, compressed: 0.15 ms
RUN_COUNT_MAX: Final = 64  # messages found in an index together, for who reads in order
DRAFT_WEIGHT: Final = 8192  # messages and ids kept one by one, up to which a shard is dumped in the loop: in 4 ms
LANE_WEIGHT: Final = 32  # what dumping a lane takes, counted in these

# Compaction
LIVING_SHARE: Final = 4  # at most one part in four of a segment's bytes may be worth copying
FALLING_SHARE: Final = 10  # of its living bytes, this part gone between two looks: it empties by itself
STEP_ENTRIES: Final = 512  # index entries one step looks at
STEP_BYTES: Final = 262_144  # bytes of messages one step reads, and one more message

# Admission: signatures
SIGNATURE_SKEW_S: Final = 900  # how far a client's clock may be off, as in AWS
PRESIGNED_MAX_S: Final = 604_800  # X-Amz-Expires, seven days
SIGNING_KEYS_MAX: Final = 4096  # derived keys remembered; one per access key, day, region and service
AUTHORIZATIONS_MAX: Final = 4096  # parsed Authorization headers remembered; clients repeat all but the signature
SIGNED_HEADS_MAX: Final = 1024  # beginnings of hashes remembered; they are of use for a second, 2 KB each
AUTHORIZATION_BYTES_MAX: Final = 1024  # a longer one is parsed anew each time; usual ones have 250

# Admission: policies
POLICY_BYTES_MAX: Final = 8192  # of a queue, as in SQS
IDENTITY_POLICY_BYTES_MAX: Final = 10_240  # of a user, as the largest inline policy in IAM
POLICY_STATEMENTS_MAX: Final = 20  # per document, as in SQS
POLICY_PRINCIPALS_MAX: Final = 50  # per statement
POLICY_CONDITIONS_MAX: Final = 10  # per statement
PERMISSION_ACTIONS_MAX: Final = 7  # of one AddPermission
LABEL_CHARS_MAX: Final = 80  # of AddPermission

# Admission: rates
BUCKETS_LOOK: Final = 2  # buckets looked at for each new one: drained ones go twice as fast as new ones come
BUCKETS_MAX: Final = 100_000  # buckets that are not empty; a new one waits until an old one has drained

# Admission: turns
LINE_MIN: Final = 8  # requests per queue that has any: then one that is alone for its queue goes ahead
SERVED_LATELY: Final = 32  # requests; then it is looked whether nearly all of them were for one queue,
SERVED_LATELY_HEAVY: Final = 28  # that is, so many: what is left for others is little, and cannot break up every turn

# Metadata
FORMER_MAX: Final = 10_000  # names of deleted queues that are kept, so that their names rest for a while
ACCOUNTS_SHARED: Final = 1_000  # names of accounts that all their queues share; of more, some are held twice
STORE_EVENTS_KEPT: Final = 10_000  # revisions that a watcher may lag behind before it has to read everything again

# Managers: talking to the store
ASKS_MAX: Final = 64  # keys one machine writes at once; a change of configuration that finds no room comes a turn later
ASK_PATIENCE: Final = 2 * SECOND  # a store that has not answered by then is asked what became of it

# Managers: who is alive
HEARTBEAT_INTERVAL: Final = SECOND // 5  # every host, to those who may have to manage
SUSPECT_AFTER: Final = SECOND  # silence that makes a host suspect; five heartbeats
SUSPECT_AFTER_MAX: Final = 3 * SECOND  # the same where heartbeats come irregularly: four times the usual gap, at most
STANDBYS: Final = 2  # hosts besides the manager that hear all heartbeats, so that they can take over at once
THINK_INTERVAL: Final = SECOND // 10  # how often a manager looks at everything
PAUSE_NOTICED: Final = SECOND // 2  # a manager woken so late has been asleep itself, and blames nobody for silence
STAND_STEP: Final = SECOND // 4  # standbys stand for election one after the other, so that they do not collide
RESIGN_AFTER: Final = 2 * SECOND  # a manager that hears less than half of the hosts leaves the office to others

# Managers: fail-over
NOT_LEADING_PATIENCE: Final = SECOND  # a primary that lives and does not lead has this long to find its way
RECOVERY_PATIENCE: Final = 10 * SECOND  # a candidate has this long to make sure of everything; doubled at each try
STALL_PATIENCE: Final = 6 * SECOND  # a shard that commits nothing though something waits; a primary's patience is 2 s
FAIL_OVER_BACKOFF: Final = SECOND // 2  # between tries for one shard, doubled at each
FAIL_OVER_BACKOFF_MAX: Final = 8 * SECOND
FAILED_MEMORY: Final = 5 * MINUTE  # nothing is handed to a host so soon after it failed to take something over
COMPLAIN_INTERVAL: Final = 10 * SECOND  # between notes about a shard that cannot be helped
STEADY_AFTER: Final = 10 * SECOND  # a shard that was active so long has its tries forgotten

# Managers: placement
ARRANGE_INTERVAL: Final = SECOND  # how often placement is looked at
HAND_OVER_INTERVAL: Final = 5 * SECOND  # between hand-overs that nothing forces: each is a pause of its shard
BALANCE_START_PERCENT: Final = 20  # hosts that differ by more than this of the mean are evened out …
BALANCE_STOP_PERCENT: Final = 5  # … to this
IDLE_LOAD: Final = 1_000_000  # bytes per second that a shard counts for before it has carried any
CENSUS_LANES: Final = 1000  # lanes that a primary looks at for one heartbeat: 100,000 in 20 s, under a millisecond each
CENSUS_SMOOTHING: Final = 8  # of what two heartbeats differ by, this part counts: two seconds
NOTED_PERMILLE: Final = 50  # of what a lane can take: one that is emptier and quieter is not reported
NOTED_LANES_MAX: Final = 64  # lanes of one shard that a heartbeat names, the fullest: under 4 KB
LOAD_SMOOTHING: Final = 64  # of one look's difference, this part counts: about a minute

# Managers: how many
FULL_PERMILLE: Final = 800  # a queue or a cluster as full as this is expanded …
TARGET_PERMILLE: Final = 500  # … until it is only this full
ROOMY_PERMILLE: Final = 400  # with one less it would still not be fuller than this: one less is enough
RESHAPES_MAX: Final = 8  # queues whose lanes are changed at once
INDEPENDENT_LANES: Final = 3  # of a queue that any host may take messages for: one may be gone, another busy
LANES_MAX: Final = 64  # of one queue; a receive may have to ask each
LANE_MESSAGES_MAX: Final = 50_000_000  # waiting in one lane: its runs and its recovery stay small
LANE_BYTES_MAX: Final = 64 << 30  # of one lane: as much as one disk should hold of one queue
LANE_RATE_MAX: Final = 5_000  # sends per second of one lane: a quarter of what one host can fsync and sign for
LED_MAX: Final = 4  # shards that one host leads well: each is one fsync per turn
EXPAND_AFTER: Final = 30 * SECOND  # so long a queue must have been full before it is expanded
SHRINK_AFTER: Final = 10 * MINUTE  # and so long roomy before it is shrunk
GROW_AFTER: Final = 2 * MINUTE  # the same of clusters
LEAVE_AFTER: Final = 30 * MINUTE

# Managers: clusters
FEDERATION_INTERVAL: Final = SECOND  # how often the external manager looks at everything
CLUSTER_SICK_AFTER: Final = 10 * SECOND  # silent or complaining so long, a cluster gets nothing new
CLUSTER_WELL_AFTER: Final = 2 * MINUTE  # well so long, it gets its share again
CLUSTER_FULL_PERMILLE: Final = 900  # of its disks or its time: it gets nothing new …
CLUSTER_ROOM_PERMILLE: Final = 750  # … until it is below this

# Replication
REPLICA_BEAT: Final = SECOND // 10  # a primary says at least so often where its log ends
REPLICA_PATIENCE: Final = 2 * SECOND  # a member that does not follow for so long is let go; no commit, no commands
UNSURE_AFTER: Final = SECOND // 2  # a primary that has not heard all members for so long hands nothing out
LEVEL_WAIT: Final = SECOND // 5  # how long a change of members may stop the frames before it is sent
CHANGE_PAUSE: Final = SECOND // 2  # between two tries to change the members
RETURN_AFTER: Final = SECOND  # a member that was let go may come back after this, doubled each time
RETURN_AFTER_MAX: Final = 16 * SECOND  # so that 30 s after the last fault all copies are there again
SLOW_LAG: Final = SECOND // 8  # a member whose acknowledgements take so long, and four times as long as others',
SLOW_FOR: Final = 3 * SECOND  # and all of them for this time, slows everybody down
UNCOMMITTED_BYTES_MAX: Final = 16_777_216  # frames that not all members have; then commands are refused
ASYNC_LAG: Final = SECOND  # how far an asynchronous queue's members may lag behind before commands are refused
HELD_MAX: Final = 10_000  # commands that wait while the members change
AHEAD_MAX: Final = 64  # messages that came before their predecessors
WAITING_MAX: Final = 256  # messages that wait for a promise to be durable
PULL_AFTER: Final = SECOND // 50  # what is missing is asked for again after this, when the primary is heard
PULL_BYTES: Final = 1_048_576  # of the log sent at once to who is behind, and one frame more
FETCH_AGAIN: Final = SECOND // 2  # a piece of a file that did not come is asked for again
FETCH_PATIENCE: Final = 2 * SECOND  # for a piece of a segment to be repaired; then the next host is asked
DOUBTS_EVERY: Final = 2 * SECOND  # so often a segment is read because somebody doubts it
MISFITS_MAX: Final = 3  # times in a row that the leader's bytes do not fit before a copy of its files is asked for
FENCE_WAIT: Final = SECOND // 10  # a candidate waits so long for all members of the last configuration,
FENCE_WAIT_LONG: Final = 2 * SECOND  # and so long when too few have answered to go on with them alone
STORE_PATIENCE: Final = 2 * SECOND  # a question that the store has not answered by then is asked again
STORE_PAUSE: Final = SECOND // 20  # before a transaction of unknown outcome is sent again
RANGES_MAX: Final = 32  # of a shard's record, also if a member without snapshots keeps it from dropping them

# Usage
UNIT_BYTES: Final = 65_536  # of messages that one billed unit carries, as in SQS
LATENCY_BUCKETS: Final = 32  # powers of two of a microsecond: the last begins at 18 minutes, longer than any call
USAGE_KEYS_MAX: Final = 50_000  # rows of a window (about 30 MiB); a busy node with many tenants has some thousands
SHAPE_BYTES_MAX: Final = 65_536  # longer bodies have no shape: reading one takes a millisecond
SHAPE_DEPTH_MAX: Final = 4  # levels of a body that its shape is made of
