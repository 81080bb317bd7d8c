"""Consumes a topic as a stock client that is slow does, with little memory, and says in one line of JSON what it saw.

usage: consume_slowly.py BROKERS TOPIC FROM_OFFSET PAUSE_MS_PER_1000

Reads everything of partition 0 that is committed, from an offset on, and pauses after each 1,000 records. `gaps` counts offsets
that hold no record between the first and the last: the markers of transactions that ended in between. `out_of_order` counts records
whose id (`ce_id`: …:INDEX) is not the next one.
"""
import json
import resource
import sys
import time

from confluent_kafka import Consumer, KafkaError, TopicPartition

brokers, topic, offset, pause_ms = sys.argv[1:5]
consumer = Consumer({
    "bootstrap.servers": brokers,
    "group.id": "stock-python",
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "queued.max.messages.kbytes": 1024,
    "fetch.message.max.bytes": 262144,
})
consumer.assign([TopicPartition(topic, 0, int(offset))])
records = out_of_order = 0
first = last = None
while True:
    message = consumer.poll(60)
    if message is None:
        sys.exit("nothing came in 60 s")
    if message.error():
        if message.error().code() == KafkaError._PARTITION_EOF:
            break
        sys.exit(str(message.error()))
    index = int(dict(message.headers())["ce_id"].rsplit(b":", 1)[1])
    out_of_order += index != records
    records += 1
    first = message.offset() if first is None else first
    last = message.offset()
    if records % 1000 == 0:
        time.sleep(float(pause_ms) / 1000)
consumer.close()
print(json.dumps({
    "records": records,
    "out_of_order": out_of_order,
    "gaps": 0 if first is None else last - first + 1 - records,
    "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
}))
