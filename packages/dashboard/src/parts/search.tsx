/** The search field of a page: `/` focuses it, Escape leaves it. */
export function Search({
  label,
  value,
  change,
}: {
  readonly label: string
  readonly value: string
  readonly change: (words: string | undefined) => void
}) {
  return (
    <input
      data-search
      type="search"
      className="field min-w-40 flex-1 sm:w-48 sm:flex-none"
      aria-label={label}
      placeholder={`${label} ( / )`}
      value={value}
      spellCheck={false}
      maxLength={200}
      onChange={(event) => change(event.target.value === '' ? undefined : event.target.value)}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return
        // The browser would clear the field.
        event.preventDefault()
        event.currentTarget.blur()
      }}
    />
  )
}
