"""Produces records as a stock client does, with the documented setting of its partitioner.

usage: produce.py BROKERS TOPIC < LINES

Each line of standard input is {"key": TEXT or null, "value": TEXT or null, "headers": {…}, "partition": N}; what is absent is
left to the client. Prints where each record came to lie, or the client's error.
"""
import json
import sys

from confluent_kafka import KafkaException, Producer

brokers, topic = sys.argv[1:3]
producer = Producer({
    "bootstrap.servers": brokers,
    "partitioner": "murmur2_random",
    "enable.idempotence": True,
    "message.max.bytes": 8 << 20,
})


def told(line):
    def delivered(error, message):
        if error:
            print(json.dumps({"line": line, "error": error.name()}))
        else:
            print(json.dumps({"line": line, "partition": message.partition(), "offset": message.offset()}))
    return delivered


for number, line in enumerate(sys.stdin):
    record = json.loads(line)
    if "value_bytes" in record:
        record["value"] = "x" * record.pop("value_bytes")
    headers = {name: value.encode() for name, value in record.pop("headers", {}).items()}
    value = record.pop("value", None)
    key = record.pop("key", None)
    producer.produce(
        topic,
        key=None if key is None else key.encode(),
        value=None if value is None else value.encode(),
        headers=headers,
        on_delivery=told(number),
        **record,
    )
    producer.poll(0)
producer.flush(60)
