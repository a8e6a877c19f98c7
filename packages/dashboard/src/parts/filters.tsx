/**
 * The filters of a list of turns or tasks. They are part of the address, so that a link shows the same list to everyone; saved ones are kept
 * in the browser.
 */
import { outcomes } from '@bellwether/protocol/vocabulary'
import { serverNowMs } from '../api/client.js'
import { periods, type Period } from '../api/queries.js'
import { clockTime } from '../model/time.js'
import { Icon } from './glyph.js'
import { Picker } from './picker.js'
import { savedFilters, useSavedFilters, type Filter } from './saved-filters.js'
import { Search } from './search.js'

interface FiltersProps {
  readonly filter: Filter
  /** The words of the status. */
  readonly statuses: readonly string[]
  readonly hasOutcome?: boolean
  /** The name of the list in the browser's storage. */
  readonly place: string
  /** `replace`: the change is part of one that the back button undoes as a whole, such as typing a word. */
  readonly change: (changed: Filter, replace: boolean) => void
  readonly show: (saved: Filter) => void
}

export function Filters({ filter, statuses, hasOutcome = false, place, change, show }: FiltersProps) {
  const { from, to } = filter
  const isEnded = (from ?? to) !== undefined
  return (
    <>
      <div className="flex w-full sm:w-auto">
        <Search label="Search words" value={filter['text'] ?? ''} change={(text) => change({ text }, true)} />
      </div>
      <Field label="Agent" value={filter['agent']} change={(agent) => change({ agent }, true)} />
      <Picker
        label="Status"
        none="any status"
        words={statuses}
        say={(word) => word.replaceAll('_', ' ')}
        value={filter['status']}
        change={(status) => change({ status }, false)}
      />
      {hasOutcome && (
        <Picker
          label="Last outcome"
          none="any outcome"
          words={outcomes}
          value={filter['outcome']}
          change={(outcome) => change({ outcome }, false)}
        />
      )}
      <Picker
        label="Time"
        none="any time"
        words={Object.keys(periods) as Period[]}
        say={(period) => `last ${period}`}
        value={filter['last']}
        change={(last) => change({ last }, false)}
      />
      <Field label="Error" value={filter['error']} change={(error) => change({ error }, true)} />
      <Field label="Min. cost $" value={filter['cost']} change={(cost) => change({ cost }, true)} isNumber />
      {isEnded && (
        <button
          type="button"
          className="button"
          aria-label={`Ended ${endedIn(filter)}: show all times`}
          onClick={() => change({ from: undefined, to: undefined }, false)}
        >
          Ended {endedIn(filter)}
          <Icon name="close" size={12} />
        </button>
      )}
      <SavedFilters place={place} filter={filter} show={show} />
    </>
  )
}

/** Such as "10:00:00 to 11:00:00". */
function endedIn({ from, to }: Filter): string {
  const nowMs = serverNowMs()
  return [from && clockTime(from, nowMs), to && `to ${clockTime(to, nowMs)}`].filter(Boolean).join(' ')
}

function Field({
  label,
  value,
  change,
  isNumber = false,
}: {
  readonly label: string
  readonly value: string | undefined
  readonly change: (words: string | undefined) => void
  readonly isNumber?: boolean
}) {
  return (
    <input
      className="field w-24 min-w-0"
      aria-label={label}
      placeholder={label}
      value={value ?? ''}
      inputMode={isNumber ? 'decimal' : 'text'}
      spellCheck={false}
      maxLength={120}
      onChange={({ target }) => {
        const words = isNumber ? target.value.replaceAll(/[^\d.]/g, '') : target.value
        change(words === '' ? undefined : words)
      }}
    />
  )
}

/** Saves the current filter under a name, shows a saved one, and removes the one that is shown. */
function SavedFilters({ place, filter, show }: Pick<FiltersProps, 'place' | 'filter' | 'show'>) {
  const saved = useSavedFilters(place)
  const current = saved.find((one) => sameFilter(one.filter, filter))
  const isEmpty = !Object.values(filter).some(Boolean)
  return (
    <>
      {saved.length > 0 && (
        <Picker
          label="Saved filter"
          none="saved filters"
          words={saved.map((one) => one.name)}
          value={current?.name}
          change={(name) => show(saved.find((one) => one.name === name)?.filter ?? {})}
        />
      )}
      {current !== undefined && (
        <button type="button" className="button" onClick={() => savedFilters.remove(place, current.name)}>
          Remove filter
        </button>
      )}
      {current === undefined && !isEmpty && (
        <button type="button" className="button" onClick={() => savedFilters.add(place, nameOf(filter), filter)}>
          Save filter
        </button>
      )}
    </>
  )
}

const sameFilter = (one: Filter, other: Filter) => nameOf(one) === nameOf(other)

/** Says what the filter shows: "failed, agent coder, last week". */
function nameOf(filter: Filter): string {
  const { status, agent, outcome, last, from, to, error, cost, text } = filter
  const words = [
    status?.replaceAll('_', ' '),
    agent && `agent ${agent}`,
    outcome && `last outcome ${outcome}`,
    last && `last ${last}`,
    (from ?? to) && `ended ${endedIn(filter)}`,
    error && `error ${error}`,
    cost && `from $${cost}`,
    text && `“${text}”`,
  ]
  return words.filter(Boolean).join(', ')
}
