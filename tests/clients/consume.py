"""Consumes a topic as a stock client does, and prints each record as a line of JSON.

usage: consume.py BROKERS TOPIC [UNTIL_SECONDS_IDLE]

Reads everything that is committed, from the earliest on, and ends at the end of each partition.
"""
import base64
import json
import sys

from confluent_kafka import Consumer, KafkaError, OFFSET_BEGINNING, TopicPartition

brokers, topic = sys.argv[1:3]
consumer = Consumer({
    "bootstrap.servers": brokers,
    "group.id": "stock-python",
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 50,
})
partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
open_partitions = set(partitions)
while open_partitions:
    message = consumer.poll(60)
    if message is None:
        sys.exit("nothing came in 60 s")
    if message.error():
        if message.error().code() != KafkaError._PARTITION_EOF:
            sys.exit(str(message.error()))
        open_partitions.discard(message.partition())
        continue
    text = lambda value: None if value is None else value.decode("utf-8", "backslashreplace")
    print(json.dumps({
        "partition": message.partition(),
        "offset": message.offset(),
        "key": text(message.key()),
        "headers": {name: text(value) for name, value in message.headers() or []},
        "value": base64.b64encode(message.value() or b"").decode(),
    }))
consumer.close()
