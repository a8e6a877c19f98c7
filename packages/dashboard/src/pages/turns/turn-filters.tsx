/**
 * The filters of the Turns page. They are part of the address, so that a link shows the same list to everyone; saved ones are kept
 * in the browser.
 */
import { turnStatuses } from '@bellwether/protocol/vocabulary'
import { periods, type Period, type TurnFilter } from '../../api/queries.js'
import { savedFilters, useSavedFilters } from './saved-filters.js'
import { Picker } from '../../parts/picker.js'
import { Search } from '../../parts/search.js'

interface FilterProps {
  readonly filter: TurnFilter
  /** `replace`: the change is part of one that the back button undoes as a whole, such as typing a word. */
  readonly change: (changed: TurnFilter, replace: boolean) => void
  readonly show: (saved: TurnFilter) => void
}

export function TurnFilters({ filter, change, show }: FilterProps) {
  return (
    <>
      <div className="flex w-full sm:w-auto">
        <Search label="Words" value={filter.text ?? ''} change={(text) => change({ text }, true)} />
      </div>
      <Field label="Agent" value={filter.agent} change={(agent) => change({ agent }, true)} />
      <Picker
        label="Status"
        none="any status"
        words={turnStatuses}
        value={filter.status}
        change={(status) => change({ status }, false)}
      />
      <Picker
        label="Time"
        none="any time"
        words={Object.keys(periods) as Period[]}
        say={(period) => `last ${period}`}
        value={filter.last}
        change={(last) => change({ last }, false)}
      />
      <Field label="Error" value={filter.error} change={(error) => change({ error }, true)} />
      <Field label="Min. cost $" value={filter.cost} change={(cost) => change({ cost }, true)} isNumber />
      <SavedFilters filter={filter} show={show} />
    </>
  )
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
      className="field w-28 min-w-0"
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
function SavedFilters({ filter, show }: Pick<FilterProps, 'filter' | 'show'>) {
  const saved = useSavedFilters()
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
        <button type="button" className="button" onClick={() => savedFilters.remove(current.name)}>
          Remove filter
        </button>
      )}
      {current === undefined && !isEmpty && (
        <button type="button" className="button" onClick={() => savedFilters.add(nameOf(filter), filter)}>
          Save filter
        </button>
      )}
    </>
  )
}

const sameFilter = (one: TurnFilter, other: TurnFilter) => nameOf(one) === nameOf(other)

/** Says what the filter shows: "failed, agent coder, last week". */
function nameOf({ status, agent, last, error, cost, text }: TurnFilter): string {
  const words = [
    status,
    agent && `agent ${agent}`,
    last && `last ${last}`,
    error && `error ${error}`,
    cost && `from $${cost}`,
    text && `“${text}”`,
  ]
  return words.filter(Boolean).join(', ')
}
