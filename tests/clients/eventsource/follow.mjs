// A browser's EventSource (the npm package `eventsource`) follows a server while it is written to, and is broken off again and again:
// its connection is cut, and it resumes by itself with Last-Event-ID; or it is closed, and another begins where it was.
//
// Every change must come, in order, and repeats must be told by their cursors.
// Usage: node follow.mjs URL CHANGES BREAKS; the last line is a RESULT.
import { connect, createServer } from 'node:net'
import { EventSource } from 'eventsource'

const [url, changesText, breaksText] = process.argv.slice(2)
const [changes, breaks] = [Number(changesText), Number(breaksText)]
const space = `${url}/v1/spaces/eventsource`
const batch = 50

async function publish(first) {
  const events = []
  for (let number = first; number < first + batch; number++) {
    events.push({ id: `o-${number}`, observed: { node: `o-${number}`, source: `s-${number}`, content: { text: 'text' } } })
    events.push({ id: `r-${number}`, retracted: { targets: [{ source: `s-${number}` }] } })
  }
  const answer = await fetch(`${space}/events`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(events),
  })
  const fates = await answer.json()
  if (fates.accepted !== events.length) throw new Error(JSON.stringify(fates))
}

let lastEventId
let source
let broken = 0
let resumedByItself = 0
const seen = new Set()
const order = []
let repeated = 0

// What lies between: connections through it are cut off under those who use them.
const { hostname, port } = new URL(url)
const open = new Set()
const between = createServer((near) => {
  const far = connect(Number(port), hostname)
  const cut = () => { near.destroy(); far.destroy(); open.delete(cut) }
  near.pipe(far).pipe(near)
  for (const end of [near, far]) end.on('error', cut).on('close', cut)
  near.once('data', (head) => { if (/^last-event-id:/im.test(head.toString('latin1'))) resumedByItself++ })
  open.add(cut)
})
await new Promise((listening) => between.listen(0, '127.0.0.1', listening))
const through = `http://127.0.0.1:${between.address().port}/v1/spaces/eventsource`

function begin() {
  const from = lastEventId ? `from=${encodeURIComponent(lastEventId)}` : 'from=earliest'
  source = new EventSource(`${through}/changes?${from}`)
  for (const name of ['change', 'end', 'caught-up', 'heartbeat']) {
    source.addEventListener(name, (event) => {
      if (event.lastEventId) lastEventId = event.lastEventId
      if (name === 'change') take(event)
    })
  }
  source.addEventListener('problem', (event) => { throw new Error(event.data) })
}

function take(event) {
  const change = JSON.parse(event.data)
  if (seen.has(change.cursor)) { repeated++ } else { seen.add(change.cursor); order.push(Number(change.node.slice(2))) }
  if (broken < breaks && Math.random() < (2 * breaks) / changes) {
    broken++
    if (broken % 2) {
      for (const cut of [...open]) cut()
    } else {
      source.close()
      begin()
    }
  }
}

begin()
for (let first = 0; first < changes; first += batch) await publish(first)
const deadline = Date.now() + 120_000
while (seen.size < changes && Date.now() < deadline) await new Promise((wait) => setTimeout(wait, 20))
source.close()
const missed = changes - new Set(order).size
const disordered = order.filter((number, index) => index > 0 && number <= order[index - 1]).length
console.log(`RESULT eventsource changes=${changes} breaks=${broken} resumed_by_itself=${resumedByItself} repeated=${repeated} missed=${missed} disordered=${disordered}`)
process.exit(missed || disordered || broken < breaks ? 1 : 0)
