/** The choice of one word in the tools of a page. `none` names the first entry, which chooses nothing. */
export function Picker<Word extends string>({
  label,
  none,
  words,
  say = (word) => word,
  value,
  change,
}: {
  readonly label: string
  readonly none: string
  readonly words: readonly Word[]
  /** How the menu shows a word. */
  readonly say?: (word: Word) => string
  readonly value: string | undefined
  readonly change: (word: Word | undefined) => void
}) {
  return (
    <select
      className="field"
      aria-label={label}
      value={value ?? ''}
      onChange={(event) => change(words.find((word) => word === event.target.value))}
    >
      <option value="">{none}</option>
      {words.map((word) => (
        <option key={word} value={word}>
          {say(word)}
        </option>
      ))}
    </select>
  )
}
